from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import SpecError
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.policy import PolicySpec
from rlpipe.snapshot.spaces import Box, Discrete
from rlpipe.snapshot.state import equal
from tests.modules import networks, stray

ROW = Box.uniform(-float("inf"), float("inf"), (3,))
OWN = ("tests.modules.*",)


def spec(kind: type[RLModule], **options: Any) -> RLModuleSpec:
    return RLModuleSpec(kind, ROW, Discrete(2), **options)


@pytest.mark.parametrize("kind", [stray.Hidden, stray.ByList, stray.ByClosure, stray.ByHook, stray.ForLargeOnly])
def test_what_acting_needs_is_found_by_whatever_way_it_is_reached(kind: type[RLModule], tmp_path: Path) -> None:
    module = spec(kind).build()
    with pytest.raises(SpecError, match="inference needs extra:") as caught:
        module.save_to_path(tmp_path / "module")
    assert caught.value.fix == "take extra out of non_inference_attributes"
    assert not (tmp_path / "module").exists()
    with pytest.raises(SpecError, match="inference needs extra:"):
        spec(kind, inference_only=True).build()
    roles = snapshot_of(spec(kind, non_inference_attributes=["vf"]).build()).roles
    assert {key for key, role in roles.items() if role == "training"} == {"vf/weight", "vf/bias"}


def test_equal_seeds_do_not_hide_it() -> None:
    torch.manual_seed(3)
    module = spec(stray.ByList).build()
    torch.manual_seed(3)
    with pytest.raises(SpecError, match="inference needs extra"):
        snapshot_of(module)


@pytest.mark.parametrize("name", ["encoder", "pi"])
def test_a_slim_module_is_not_built_by_a_list_that_prunes_too_much(name: str) -> None:
    with pytest.raises(SpecError, match=f"inference needs {name}:"):
        spec(PPOModule, inference_only=True, non_inference_attributes=["vf", name]).build()
    with pytest.raises(SpecError, match=f"inference needs {name}:"):
        PPOModule(ROW, Discrete(2), inference_only=True, non_inference_attributes=[name])
    with pytest.raises(SpecError, match=f"inference needs {name}:"):
        PolicySpec.default(PPOModule, ROW, Discrete(2), inference_only=True, non_inference_attributes=(name,))


def test_without_numbers_a_slim_module_is_built_all_the_same() -> None:
    slim = spec(networks.Greedy, inference_only=True).build(device="meta")
    assert not hasattr(slim, "bias")


def test_the_proof_of_a_slim_module_draws_no_random_numbers() -> None:
    torch.manual_seed(5)
    expected = spec(PPOModule).build().get_state(inference_only=True)
    torch.manual_seed(5)
    slim = spec(PPOModule, inference_only=True).build()
    assert equal(slim.get_state()["encoder"], expected["encoder"])


@pytest.mark.parametrize(
    ("kind", "name"), [(stray.PlainTensor, "mean"), (stray.PlainList, "means[0]"), (stray.PlainBuffer, "mean")]
)
@pytest.mark.parametrize("inference_only", [False, True])
def test_a_tensor_that_was_learnt_and_is_not_saved_is_named(
    kind: type[RLModule], name: str, inference_only: bool
) -> None:
    module: Any = spec(kind, inference_only=inference_only).build()
    snapshot_of(module)
    module.mean += 5
    with pytest.raises(SpecError, match="act differently when it is restored") as caught:
        snapshot_of(module)
    assert name in caught.value.found
    assert "unused" not in caught.value.found


def test_a_number_that_was_learnt_and_is_not_saved_is_an_error_too(tmp_path: Path) -> None:
    module: Any = spec(stray.PlainNumber).build()
    module.factor = 3.0
    with pytest.raises(SpecError, match="built again from its state: other outputs logits"):
        module.save_to_path(tmp_path / "module")


def test_a_module_that_never_answers_the_same_is_not_called_forgetful(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert set(spec(stray.Moody).build().get_own_roles().values()) == {"inference"}
    assert "differently twice" in caplog.text


def test_what_was_changed_after_building_is_refused_before_it_is_saved(tmp_path: Path) -> None:
    module: Any = spec(networks.Trunk).build().to(torch.bfloat16)
    module.more = torch.nn.Linear(1, 1)
    with pytest.raises(SpecError, match="no longer what its spec builds") as caught:
        module.save_to_path(tmp_path / "module")
    for text in ("pi.weight: bfloat16 (2, 4), built as float32 (2, 4)", "more.bias: float32 (1,), built as nothing"):
        assert text in caught.value.found
    assert not (tmp_path / "module").exists()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_a_dtype_that_the_config_names_comes_back(dtype: str, tmp_path: Path) -> None:
    module = spec(stray.InDtype, model_config={"dtype": dtype}).build()
    restored = RLModule.from_checkpoint(module.save_to_path(tmp_path / "module"), trust=OWN)
    assert restored.get_parameter("pi.weight").dtype == getattr(torch, dtype)
    assert equal(restored.get_state(), module.get_state())


def test_computed_weights_are_no_hindrance(tmp_path: Path) -> None:
    module = spec(stray.Parametrized).build()
    assert module.output_kind() == "logits"
    path = module.save_to_path(tmp_path / "module")
    slim = RLModule.from_checkpoint(path, inference_only=True, trust=OWN)
    assert not hasattr(slim, "vf")
    batch = {"obs": torch.randn(5, 3)}
    expected = module.eval().forward_inference(batch)["logits"]
    assert torch.equal(slim.forward_inference(batch)["logits"], expected)


def test_layers_without_a_shape_are_named() -> None:
    with pytest.raises(SpecError, match="without a shape") as caught:
        spec(stray.Lazy).build()
    assert "pi.weight" in caught.value.found


def test_tensors_without_numbers_are_named() -> None:
    with pytest.raises(SpecError, match="without numbers") as caught:
        spec(stray.Bare).build()
    assert "offset" in caught.value.found
    assert spec(stray.Bare).build(device="meta").get_buffer("offset").is_meta


def test_another_layout_in_memory_is_no_other_module() -> None:
    module = spec(networks.Trunk).build()
    with torch.no_grad():
        module.get_submodule("pi").weight = torch.nn.Parameter(module.get_parameter("pi.weight").t().contiguous().t())
    assert set(module.get_own_roles().values()) == {"inference"}
