from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.errors import SpecError, UntrustedClassError
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.modules.torch.torch_module import TorchModule
from rlpipe.snapshot.spaces import Box, Dict, Discrete
from rlpipe.snapshot.state import arrays, equal
from tests.conformance.module_suite import Case, ModuleSuite
from tests.modules import networks

ROW = Box.uniform(-1, 1, (3,))
NET = "tests.modules.networks.Net"


def config(output: str = "logits", network: Any = networks.Net, **kwargs: Any) -> dict[str, Any]:
    return {"class": network, "kwargs": {"inputs": 3, "outputs": 2, **kwargs}, "output": output}


def spec(output: str = "logits", network: Any = networks.Net, **options: Any) -> RLModuleSpec:
    return RLModuleSpec(TorchModule, ROW, Discrete(2), model_config=config(output, network), **options)


class TestTorchModule(ModuleSuite):
    module_class = "rlpipe.modules.torch.torch_module.TorchModule"
    trust = ("torch.nn.*",)

    @staticmethod
    def cases() -> list[Case]:
        real = Box.uniform(-1, 1, (2,))
        linear = {"class": torch.nn.Linear, "kwargs": {"in_features": 3, "out_features": 2}}
        return [
            Case("logits", ROW, Discrete(2), {**linear, "output": "logits"}),
            Case("q", ROW, Discrete(2), {**linear, "output": "q"}),
            Case("mean", ROW, real, {**linear, "output": "mean"}),
            Case("squashed", ROW, real, {**linear, "output": "squashed"}),
            Case("action", ROW, real, {**linear, "output": "action"}),
        ]


def test_the_network_is_under_net_and_may_be_pruned() -> None:
    full = spec(non_inference_attributes=["net.value_head"]).build()
    assert set(arrays(full.get_state())) - set(arrays(full.get_state(inference_only=True))) == {
        "net/value_head/weight",
        "net/value_head/bias",
    }


def test_a_path_is_imported_only_if_trusted() -> None:
    with pytest.raises(UntrustedClassError):
        spec(network=NET).build()
    assert isinstance(spec(network=NET).build(trust=(NET,)), TorchModule)


def test_a_class_that_is_handed_over_is_trusted_and_its_path_is_saved(tmp_path: Path) -> None:
    module = spec().build()
    assert module.model_config["class"] == NET
    path = module.save_to_path(tmp_path / "module")
    with pytest.raises(UntrustedClassError):
        RLModule.from_checkpoint(path)
    assert equal(RLModule.from_checkpoint(path, trust=("tests.*",)).get_state(), module.get_state())


def test_a_class_that_is_no_network_is_refused() -> None:
    with pytest.raises(SpecError, match="does not fit"):
        spec(network=dict).build()


def test_a_class_without_a_path_is_refused() -> None:
    class Local(networks.Net):
        pass

    with pytest.raises(SpecError, match="cannot be found again"):
        spec(network=Local).build()


def test_a_dict_gives_what_the_config_names() -> None:
    assert list(spec("q", networks.DictNet).build().forward_inference({"obs": torch.zeros(4, 3)})) == ["q"]
    with pytest.raises(SpecError, match="puts out no logits"):
        spec("logits", networks.DictNet).build().forward_inference({"obs": torch.zeros(4, 3)})


def test_the_network_may_take_parts() -> None:
    space = Dict({"a": Box.uniform(-1, 1, (2,)), "b": Box.uniform(-1, 1, (3,))})
    parts: Any = {"class": networks.PartsNet, "output": "logits"}
    module = RLModuleSpec(TorchModule, space, Discrete(2), model_config=parts).build()
    batch = {"a": torch.zeros(4, 2), "b": torch.ones(4, 3)}
    assert module.forward_inference({"obs": batch})["logits"].shape == (4, 2)
    assert module.output_kind() == "logits"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"kwargs": {}}, "names no network"),
        ({"class": 3}, "names no network"),
        ({"class": NET, "kwargs": [1]}, "kwargs is no mapping"),
        ({"class": NET, "output": "logit"}, "logits"),
        ({"class": NET, "kwarg": {}}, "kwargs"),
    ],
)
def test_a_config_that_does_not_fit_says_what_would(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError) as caught:
        RLModuleSpec(TorchModule, ROW, Discrete(2), model_config=wrong).build()
    assert named in str(caught.value)


def test_wrong_arguments_of_the_network_are_named() -> None:
    wrong = {"class": networks.Net, "kwargs": {"inputs": 3}, "output": "q"}
    with pytest.raises(SpecError) as caught:
        RLModuleSpec(TorchModule, ROW, Discrete(2), model_config=wrong).build()
    assert "outputs" in caught.value.found


def test_the_output_kind_is_what_the_config_says() -> None:
    assert [spec(kind).build().output_kind() for kind in ("q", "squashed", "action")] == ["q", "squashed", "action"]
    assert list(spec("squashed").build().forward_inference({"obs": torch.zeros(1, 3)})) == ["mean"]
    assert np.isfinite(
        spec("mean").build().forward_inference({"obs": torch.zeros(1, 3)})["mean"].detach().numpy()
    ).all()
