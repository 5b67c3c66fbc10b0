from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlpipe.checkpoint.restore import build, snapshot_of
from rlpipe.errors import (
    CheckpointNotFoundError,
    DeviceError,
    SpecError,
    StateMismatchError,
    TieError,
    UnsupportedStateError,
    UntrustedClassError,
)
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.modules.torch.sac import SACModule
from rlpipe.snapshot import inference_hash
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.spaces import Box, Discrete, Text
from rlpipe.snapshot.state import arrays, equal
from tests.modules import networks, stray

ROW = Box.uniform(-1, 1, (3,))
OWN = ("tests.modules.*",)
INFERENCE = Selection(roles=frozenset({"inference"}))


def spec(kind: type[RLModule], **options: Any) -> RLModuleSpec:
    return RLModuleSpec(kind, ROW, Discrete(2), **options)


def keys(module: RLModule) -> set[str]:
    return {key.rpartition("/")[0] or key for key in arrays(module.get_state())}


def test_nested_attributes_are_removed_and_their_namesakes_are_not() -> None:
    slim = spec(networks.Names, inference_only=True).build()
    expected = {"vf2", "encoder/critic_encoder_2", "encoder/actor", "critic_encoder", "steps"}
    assert keys(slim) == expected
    assert not hasattr(slim, "vf")
    assert not hasattr(slim, "counter")
    assert "critic_encoder" not in slim.encoder  # type: ignore[operator]


@pytest.mark.parametrize("given", [["vf", "encoder.critic_encoder"], ("encoder.critic_encoder", "vf", "vf")])
def test_a_list_from_yaml_is_the_same_as_the_classes_own(given: Any) -> None:
    listed, asked = (spec(networks.Names, non_inference_attributes=value).build() for value in (given, None))
    assert listed.get_own_roles() == asked.get_own_roles()
    assert keys(spec(networks.Names, inference_only=True, non_inference_attributes=given).build()) == keys(
        spec(networks.Names, inference_only=True).build()
    )


def test_an_empty_list_removes_nothing() -> None:
    module = spec(networks.Names, non_inference_attributes=[]).build()
    assert set(module.get_own_roles().values()) == {"inference"}


@pytest.mark.parametrize("given", ["vf", [1], ["a..b"], [""], {"vf": 1}])
def test_a_list_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(SpecError, match="are no paths"):
        spec(networks.Names, non_inference_attributes=given)


def test_only_one_of_inference_only_and_learner_only() -> None:
    with pytest.raises(SpecError, match="inference_only and learner_only"):
        spec(networks.Names, inference_only=True, learner_only=True)
    with pytest.raises(SpecError, match="inference_only and learner_only"):
        networks.Names(ROW, Discrete(2), inference_only=True, learner_only=True)


def test_a_list_that_prunes_too_much_is_named_when_a_snapshot_is_taken(tmp_path: Path) -> None:
    module = spec(networks.Greedy).build()
    with pytest.raises(SpecError, match="inference needs bias, scale"):
        module.save_to_path(tmp_path / "greedy")
    assert not (tmp_path / "greedy").exists()
    with pytest.raises(SpecError, match="inference needs bias"):
        snapshot_of(spec(networks.Greedy, non_inference_attributes=["vf", "bias"]).build())
    roles = snapshot_of(spec(networks.Greedy, non_inference_attributes=["vf"]).build()).roles
    assert {key for key, role in roles.items() if role == "training"} == {"vf/weight", "vf/bias"}


def test_the_proof_leaves_no_trace_in_the_module() -> None:
    module = spec(networks.Noisy, non_inference_attributes=["vf"]).build()
    before = module.get_state()
    generator = torch.get_rng_state()
    module.get_own_roles()
    assert module.training
    assert equal(module.get_state(), before)
    assert torch.equal(torch.get_rng_state(), generator)


def test_the_proof_gives_a_module_with_memory_its_state() -> None:
    roles = spec(networks.Remembering, non_inference_attributes=["vf"]).build().get_own_roles()
    assert roles["vf/weight"] == "training"
    with pytest.raises(SpecError, match="inference needs cell"):
        spec(networks.Remembering, non_inference_attributes=["cell", "vf"]).build().get_own_roles()


def test_a_tie_with_an_inference_name_is_for_inference() -> None:
    full = snapshot_of(spec(networks.Tied).build())
    assert {key for key, role in full.roles.items() if role == "training"} == {"critic/2/weight", "critic/2/bias"}
    slim = select(full, INFERENCE)
    built = build(slim, trust=OWN)
    assert not hasattr(built, "critic")
    assert inference_hash(snapshot_of(built)) == inference_hash(full)
    assert snapshot_of(built).roles.keys() == slim.roles.keys()


def test_tied_names_come_back_tied(tmp_path: Path) -> None:
    path = spec(networks.Tied).build().save_to_path(tmp_path / "tied")
    module: Any = RLModule.from_checkpoint(path, trust=OWN)
    assert module.trunk.weight is module.critic[0].weight


def test_two_values_for_one_tensor_change_nothing() -> None:
    module = spec(networks.Tied).build()
    state = module.get_state()
    state["critic"]["0"]["weight"] = state["critic"]["0"]["weight"] + 1
    before = module.get_state()
    with pytest.raises(TieError, match="one tensor"):
        module.set_state(state)
    assert equal(module.get_state(), before)


def test_compiled_parts_keep_their_names(caplog: pytest.LogCaptureFixture) -> None:
    module: Any = spec(networks.Names).build()
    expected = module.get_state()
    module.encoder = torch.compile(module.encoder, backend="eager")
    module.vf2 = torch.compile(module.vf2, backend="eager")
    assert equal(module.get_state(), expected)
    assert module.get_own_roles()["encoder/critic_encoder/weight"] == "training"
    assert not caplog.text
    other: Any = spec(networks.Names).build()
    other.vf2 = torch.compile(other.vf2, backend="eager")
    other.set_state(expected)
    assert equal(other.get_state(), expected)


def test_extra_state_comes_along(tmp_path: Path) -> None:
    module: Any = spec(networks.Extra).build()
    module.seen = 11
    path = module.save_to_path(tmp_path / "extra")
    restored: Any = RLModule.from_checkpoint(path, trust=OWN)
    assert restored.seen == 11
    assert snapshot_of(module).state["_extra_state"] == {"seen": 11, "names": ("a", "b")}


def test_an_untrusted_class_is_not_imported(tmp_path: Path) -> None:
    path = spec(networks.Names).build().save_to_path(tmp_path / "names")
    with pytest.raises(UntrustedClassError):
        RLModule.from_checkpoint(path)
    assert isinstance(networks.Names.from_checkpoint(path), networks.Names)
    with pytest.raises(UntrustedClassError):
        RLModuleSpec("tests.modules.networks.Names", ROW, Discrete(2)).build()


def test_another_class_than_asked_for_is_refused(tmp_path: Path) -> None:
    path = spec(PPOModule).build().save_to_path(tmp_path / "ppo")
    with pytest.raises(SpecError, match="does not fit"):
        SACModule.from_checkpoint(path)


def test_slim_checkpoints_have_no_training_part(tmp_path: Path) -> None:
    full = spec(PPOModule).build()
    path = full.save_to_path(tmp_path / "slim", state=full.get_state(inference_only=True))
    assert RLModule.from_checkpoint(path).inference_only
    assert RLModule.from_checkpoint(path, inference_only=True).inference_only
    with pytest.raises(SpecError, match="for inference only"):
        RLModule.from_checkpoint(path, inference_only=False)
    with pytest.raises(StateMismatchError) as caught:
        full.restore_from_path(path)
    assert "vf/weight" in caught.value.missing


def test_a_slim_module_restores_from_a_full_checkpoint(tmp_path: Path) -> None:
    full = spec(PPOModule).build()
    path = full.save_to_path(tmp_path / "full")
    slim = spec(PPOModule, inference_only=True).build()
    slim.restore_from_path(path)
    assert equal(slim.get_state(), full.get_state(inference_only=True))


def test_meta_reads_no_array(tmp_path: Path) -> None:
    path = Path(spec(PPOModule).build().save_to_path(tmp_path / "full"))
    (path / "state.h5").unlink()
    assert all(tensor.is_meta for tensor in RLModule.from_checkpoint(path, device="meta").parameters())


def test_a_module_on_meta_is_not_saved_as_zeros(tmp_path: Path) -> None:
    whole, part = spec(PPOModule).build(), spec(PPOModule).build()
    whole.to("meta")
    part.get_submodule("pi").to("meta")
    for module in (whole, part):
        with pytest.raises(UnsupportedStateError, match="no numbers") as caught:
            module.save_to_path(tmp_path / "module")
        assert "pi/" in str(caught.value.found)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_checkpoint_and_a_missing_device_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError):
        RLModule.from_checkpoint(tmp_path / "nothing")
    for device in ("cuda:99", "tpu", "cpu:x"):
        with pytest.raises(DeviceError, match="no device"):
            spec(PPOModule).build(device=device)


def test_a_class_that_fails_to_build_is_named() -> None:
    class Broken(networks.Trunk):
        def setup(self) -> None:
            raise ZeroDivisionError("no width")

    with pytest.raises(SpecError, match="cannot be built") as caught:
        spec(Broken).build()
    assert "no width" in caught.value.found


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, {"a": object()}, {"a": {"b": {3}}}])
def test_a_config_that_is_no_plain_data_is_refused(value: Any) -> None:
    with pytest.raises(SpecError, match="model_config"):
        spec(networks.Trunk, model_config={"x": value}).build()


def test_gymnasium_spaces_are_taken() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    taken = RLModuleSpec(PPOModule, gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2))
    assert taken.build().get_module_spec().to_json() == spec(PPOModule).build().get_module_spec().to_json()


def test_bfloat16_and_integers_come_back_exactly() -> None:
    made: list[Any] = [spec(stray.InDtype, model_config={"dtype": "bfloat16"}).build() for _ in range(2)]
    module, other = made
    module.steps.add_(2**40 + 1)
    state = module.get_state()
    assert str(state["pi"]["weight"].dtype) == "bfloat16"
    assert state["steps"].shape == ()
    assert int(state["steps"]) == 2**40 + 1
    other.set_state(state)
    assert torch.equal(other.pi.weight, module.pi.weight)
    assert other.pi.weight.dtype == torch.bfloat16


def test_a_state_of_another_dtype_is_refused() -> None:
    module = spec(networks.Trunk).build()
    state = module.get_state()
    state["pi"]["bias"] = state["pi"]["bias"].astype(np.float64)
    with pytest.raises(StateMismatchError) as caught:
        module.set_state(state)
    assert "pi/bias" in caught.value.mismatched[0]


def test_the_proof_is_of_the_module_as_it_is_now() -> None:
    module: Any = spec(networks.Names).build()
    module.get_own_roles()
    module.non_inference_attributes = ("vf2",)
    with pytest.raises(SpecError, match="inference needs vf2"):
        module.get_own_roles()


def test_the_options_are_no_part_of_the_identity() -> None:
    full = spec(PPOModule).build()
    assert full.get_spec().identity() == replace(spec(PPOModule), inference_only=True).build().get_spec().identity()


def test_views_hold_the_live_numbers_without_a_copy() -> None:
    module: Any = spec(networks.Trunk).build()
    view = module.get_own_state()["pi"]["bias"]
    with torch.no_grad():
        module.pi.bias.fill_(3)
    assert (view == 3).all()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_forward_follows_the_mode() -> None:
    module = spec(PPOModule).build()
    batch = {"obs": torch.zeros(2, 3)}
    assert set(module(batch)) == {"logits", "value"}
    assert set(module.eval()(batch)) == {"logits"}


def test_a_plain_module_needs_no_setup_of_its_own() -> None:
    assert isinstance(spec(networks.Trunk).build(), nn.Module)


def test_a_forward_that_cannot_be_tried_does_not_stop_a_save(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    module = RLModuleSpec(networks.Names, Box.uniform(-1, 1, (5,)), Discrete(2)).build()
    path = module.save_to_path(tmp_path / "module")
    assert "could not be checked" in caplog.text
    assert "shapes cannot be multiplied" in caplog.text
    assert Path(path).is_dir()


def test_ties_are_known_without_numbers() -> None:
    meta, real = (spec(networks.Tied).build(device=device) for device in ("meta", "cpu"))
    assert meta.get_own_roles() == real.get_own_roles()
    slim = spec(networks.Tied, inference_only=True).build(device="meta")
    assert arrays(slim.get_own_state()).keys() == arrays(real.get_state(inference_only=True)).keys()


def test_a_space_that_cannot_be_tried_does_not_stop_a_save(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    module = RLModuleSpec(networks.Names, Text(1, 4, "ab"), Discrete(2)).build()
    module.save_to_path(tmp_path / "module")
    assert "could not be checked" in caplog.text


def test_a_restore_reads_into_the_parameters_and_torch_knows(tmp_path: Path) -> None:
    source, live = spec(PPOModule).build(), spec(PPOModule).build()
    path = source.save_to_path(tmp_path / "ckpt")
    with torch.no_grad():
        for parameter in live.parameters():
            parameter.fill_(7)
    before = {name: (value.data_ptr(), value._version) for name, value in live.named_parameters()}
    live.restore_from_path(path)
    for name, value in live.named_parameters():
        assert torch.equal(value, source.get_parameter(name))
        assert value.data_ptr() == before[name][0]
        assert value._version > before[name][1]
