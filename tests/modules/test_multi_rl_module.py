from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from torch import nn

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import build
from rlpipe.errors import IdError, SelectionError, SpecError, TieError
from rlpipe.modules.inference_only_api import InferenceOnlyAPI
from rlpipe.modules.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.selection import Selection
from rlpipe.snapshot.spaces import Box, Discrete
from rlpipe.snapshot.state import arrays, equal
from tests.modules.networks import Shared, Trunk

ROW = Box.uniform(-1, 1, (3,))
OWN = ("tests.*",)


def ppo() -> RLModuleSpec:
    return RLModuleSpec(PPOModule, ROW, Discrete(2), model_config={"actor": {"type": "mlp", "hidden": [4]}})


def trunk() -> RLModuleSpec:
    return RLModuleSpec(Trunk, ROW, Discrete(2))


def policy() -> PolicySpec:
    return PolicySpec.default(Trunk, ROW, Discrete(2))


def multi(**specs: RLModuleSpec) -> MultiRLModule:
    return MultiRLModuleSpec(rl_module_specs=specs).build()


def shared() -> Any:
    return MultiRLModuleSpec(Shared, {"p0": trunk(), "p1": trunk()}).build()


class SlimContainer(MultiRLModule, InferenceOnlyAPI):
    def setup(self) -> None:
        self.judge = nn.Linear(3, 1)
        self.common = nn.Linear(3, 4)

    def get_non_inference_attributes(self) -> list[str]:
        return ["judge"]


def test_modules_are_found_by_id() -> None:
    container = multi(p0=ppo(), p1=trunk())
    assert list(container) == ["p0", "p1"]
    assert list(container.keys()) == ["p0", "p1"]
    assert len(container) == 2
    assert "p1" in container
    assert "p2" not in container
    assert isinstance(container["p1"], Trunk)
    assert dict(container.items()) == {"p0": container["p0"], "p1": container["p1"]}
    assert [type(module) for module in container.values()] == [PPOModule, Trunk]


def test_an_unknown_id_is_named_with_the_closest() -> None:
    with pytest.raises(SelectionError) as caught:
        multi(walker=ppo())["walkr"]
    assert caught.value.closest == ("walker",)


@pytest.mark.parametrize("name", ["", "a/b", ".p", "con", "state.h5"])
def test_an_id_that_is_no_directory_is_refused(name: str) -> None:
    with pytest.raises(IdError):
        MultiRLModuleSpec(rl_module_specs={name: ppo()})
    with pytest.raises(IdError):
        MultiRLModule({name: ppo().build()})


def test_any_id_with_a_dot_or_a_methods_name_will_do(tmp_path: Path) -> None:
    container = multi(**{"p.1": ppo(), "keys": ppo(), "forward": ppo()})
    restored = MultiRLModule.from_checkpoint(container.save_to_path(tmp_path / "container"))
    assert equal(restored.get_state(), container.get_state())


def test_parameters_are_those_of_all_modules() -> None:
    container = shared()
    assert len(list(container.parameters())) == 2 + 2 * 2


def test_each_module_gets_its_own_batch() -> None:
    container = multi(p0=ppo(), p1=trunk())
    batch = {"p0": {"obs": torch.zeros(2, 3)}, "p1": {"obs": torch.zeros(5, 3)}}
    assert {name: len(outputs["logits"]) for name, outputs in container.forward_inference(batch).items()} == {
        "p0": 2,
        "p1": 5,
    }
    assert "value" in container.forward_train(batch)["p0"]
    assert set(container.forward_exploration({"p1": batch["p1"]})) == {"p1"}


def test_inference_only_of_the_container_is_that_of_all() -> None:
    container = MultiRLModuleSpec(rl_module_specs={"p0": ppo(), "p1": ppo()}, inference_only=True).build()
    assert all(module.inference_only for module in container.values())
    full = multi(p0=ppo(), p1=ppo())
    assert arrays(full.get_state(inference_only=True)).keys() == arrays(container.get_state()).keys()


def test_the_containers_own_networks_are_saved(tmp_path: Path) -> None:
    container = SlimContainer({"p0": trunk().build()})
    path = Path(container.save_to_path(tmp_path / "container"))
    with h5py.File(path / "state.h5") as file:
        assert set(file) == {"common", "judge"}
    restored = SlimContainer.from_checkpoint(path, trust=OWN)
    assert equal(restored.get_state(), container.get_state())
    slim: Any = build(read_checkpoint(path, Selection(roles=frozenset({"inference"}))), trust=OWN)
    assert not hasattr(slim, "judge")
    assert torch.equal(slim.common.weight, container.common.weight)


def test_layers_that_modules_share_come_back_shared(tmp_path: Path) -> None:
    container = shared()
    path = Path(container.save_to_path(tmp_path / "shared"))
    restored: Any = MultiRLModule.from_checkpoint(path, trust=OWN)
    assert restored["p0"].trunk is restored["p1"].trunk is restored.common
    assert equal(restored.get_state(), container.get_state())
    alone: Any = RLModule.from_checkpoint(path / "p1", trust=OWN)
    assert torch.equal(alone.trunk.weight, container.common.weight)


def test_parameters_tied_by_hand_come_back_tied(tmp_path: Path) -> None:
    container: Any = multi(a=trunk(), b=trunk(), c=trunk())
    container["b"].trunk.weight = container["a"].trunk.weight
    container["c"].pi = container["a"].pi
    path = container.save_to_path(tmp_path / "tied")
    restored: Any = MultiRLModule.from_checkpoint(path, trust=OWN)
    assert restored["b"].trunk.weight is restored["a"].trunk.weight
    assert restored["c"].pi.weight is restored["a"].pi.weight
    assert restored["b"].trunk.bias is not restored["a"].trunk.bias
    with torch.no_grad():
        restored["a"].trunk.weight.fill_(2)
    assert (restored["b"].trunk.weight == 2).all()
    assert equal(MultiRLModule.from_checkpoint(path, trust=OWN).get_state(), container.get_state())


def test_a_part_of_a_tie_is_refused_with_its_partners(tmp_path: Path) -> None:
    path = shared().save_to_path(tmp_path / "shared")
    with pytest.raises(TieError) as caught:
        read_checkpoint(path, Selection(components=("p1",)))
    assert "p0/trunk/weight" in str(caught.value)


def test_a_network_and_a_module_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="names a module and a network"):
        SlimContainer({"common": trunk().build()})


def test_one_module_is_restored_and_the_others_are_kept(tmp_path: Path) -> None:
    source, target = multi(p0=ppo(), p1=ppo()), multi(p0=ppo(), p1=ppo())
    path = Path(source.save_to_path(tmp_path / "source"))
    before = target["p0"].get_state()
    target.restore_from_path(path / "p1", component="p1")
    assert equal(target["p1"].get_state(), source["p1"].get_state())
    assert equal(target["p0"].get_state(), before)


def test_meta_and_plain_have_the_same_keys() -> None:
    meta = MultiRLModuleSpec(Shared, {"p0": trunk()}).build(device="meta")
    assert all(parameter.is_meta for parameter in meta.parameters())
    plain = MultiRLModuleSpec(Shared, {"p0": trunk()}).build()
    assert meta.get_own_roles() == plain.get_own_roles()
    assert meta["p0"].get_own_roles() == plain["p0"].get_own_roles()


def test_a_class_path_is_resolved_by_trust() -> None:
    built = MultiRLModuleSpec("tests.modules.networks.Shared", {"p0": trunk()}).build(trust=OWN)
    assert isinstance(built, Shared)


class Preparing(MultiRLModule, InferenceOnlyAPI):
    """Its own network prepares what its modules are given, and it calls that needless."""

    def setup(self) -> None:
        self.prepare = nn.Linear(3, 3)
        self.judge = nn.Linear(3, 1)
        self.kept = [self.prepare]

    def get_non_inference_attributes(self) -> list[str]:
        return ["judge", "prepare"]

    def prepared(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.prepare(x)
        return found

    def forward_inference(self, batch: Any) -> dict[str, Any]:
        return super().forward_inference({name: {"obs": self.prepared(part["obs"])} for name, part in batch.items()})


class PreparingByList(Preparing):
    def prepared(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.kept[0](x)
        return found


class Judged(Preparing):
    def get_non_inference_attributes(self) -> list[str]:
        return ["judge"]


@pytest.mark.parametrize("kind", [Preparing, PreparingByList])
@pytest.mark.parametrize("made", [trunk, policy])
def test_an_own_network_that_acting_needs_is_named(kind: type[MultiRLModule], made: Any, tmp_path: Path) -> None:
    container = kind({"p0": made().build()})
    with pytest.raises(SpecError, match="inference needs prepare: ") as caught:
        container.save_to_path(tmp_path / "container")
    assert caught.value.fix == "take prepare out of non_inference_attributes"
    assert not (tmp_path / "container").exists()
    with pytest.raises(SpecError, match="inference needs prepare: "):
        kind({"p0": made().build()}, inference_only=True)


@pytest.mark.parametrize("made", [trunk, policy])
def test_the_proof_leaves_no_trace_in_the_container(made: Any) -> None:
    container = Judged({"p0": made().build(), "p1": made().build()})
    before = [(name, id(value), value._version) for name, value in container.state_dict(keep_vars=True).items()]
    generator = torch.get_rng_state()
    assert container.get_own_roles()["judge/weight"] == "training"
    assert [(name, id(value), value._version) for name, value in container.state_dict(keep_vars=True).items()] == before
    assert torch.equal(torch.get_rng_state(), generator)
    assert container.training
    slim: Any = Judged({"p0": made().build()}, inference_only=True)
    assert not hasattr(slim, "judge")
    assert slim.get_own_state().keys() == {"prepare"}
