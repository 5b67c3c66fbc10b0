from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.checkpoint.restore import build, snapshot_of
from rlpipe.errors import IdError, SelectionError, SpecError, TieError
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.dqn import DQNModule
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.snapshot import content_hash
from rlpipe.snapshot.spaces import Box, Discrete
from rlpipe.snapshot.state import equal
from tests.modules.networks import Shared, Trunk

ROW = Box.uniform(-1, 1, (3,))
OWN = ("tests.*",)


def spec(kind: Any = PPOModule, **options: Any) -> PolicySpec:
    return PolicySpec.default(kind, ROW, Discrete(2), **options)


def algorithm(*ids: str) -> Algorithm:
    return Algorithm({name: spec(DQNModule if name == "dqn" else PPOModule).build() for name in ids})


def test_policies_are_found_by_id() -> None:
    made = algorithm("p0", "dqn")
    assert isinstance(made.get_policy("dqn").module, DQNModule)
    with pytest.raises(SelectionError) as caught:
        made.get_policy("dqm")
    assert caught.value.closest == ("dqn",)


def test_an_id_that_is_no_directory_is_refused() -> None:
    with pytest.raises(IdError):
        algorithm("a/b")


def test_an_algorithm_comes_back_whole(tmp_path: Path) -> None:
    made = algorithm("p0", "dqn")
    path = made.save_to_path(tmp_path / "a")
    restored = Algorithm.from_checkpoint(path)
    assert content_hash(snapshot_of(restored)) == content_hash(snapshot_of(made))
    assert equal(restored.get_state(), made.get_state())


def test_some_policies_open_only_their_files(tmp_path: Path) -> None:
    made = algorithm("p0", "p1", "dqn")
    path = Path(made.save_to_path(tmp_path / "a"))
    for name in ("p0", "dqn"):
        (path / "policies" / name / "state.h5").write_bytes(b"damaged")
    restored = Algorithm.from_checkpoint(path, ["p1"])
    assert list(restored.policies) == ["p1"]
    assert equal(restored.get_policy("p1").get_state(), made.get_policy("p1").get_state())
    only: Any = Policy.from_checkpoint(path, policy_ids=["p1"])
    assert list(only) == ["p1"]


@pytest.mark.parametrize("where", ["", "policies"])
def test_policies_come_by_id_from_an_algorithm_and_a_container(tmp_path: Path, where: str) -> None:
    made = algorithm("p0", "p1", "dqn")
    path = Path(made.save_to_path(tmp_path / "a")) / where
    everything: Any = Policy.from_checkpoint(path)
    assert sorted(everything) == ["dqn", "p0", "p1"]
    some: Any = Policy.from_checkpoint(path, ["p*"])
    assert sorted(some) == ["p0", "p1"]
    assert equal(some["p1"].get_state(), made.get_policy("p1").get_state())
    with pytest.raises(SelectionError):
        Policy.from_checkpoint(path, ["p2"])


def test_one_policy_has_no_ids_and_a_module_no_policies(tmp_path: Path) -> None:
    made = spec().build()
    path = made.save_to_path(tmp_path / "p")
    with pytest.raises(SpecError, match="is one policy"):
        Policy.from_checkpoint(path, ["p"])
    module = made.module.save_to_path(tmp_path / "m")
    with pytest.raises(SpecError, match="holds no policies"):
        Policy.from_checkpoint(module)


def test_one_policy_is_restored_and_the_rest_kept(tmp_path: Path) -> None:
    source, target = algorithm("p0", "p1"), algorithm("p0", "p1")
    path = Path(source.save_to_path(tmp_path / "a"))
    before = target.get_policy("p0").get_state()
    report = target.restore_from_path(path / "policies" / "p1", component="policies/p1")
    assert equal(target.get_policy("p1").get_state(), source.get_policy("p1").get_state())
    assert equal(target.get_policy("p0").get_state(), before)
    assert report.restored


def test_an_algorithm_from_a_state() -> None:
    made = algorithm("p0", "dqn")
    again = Algorithm.from_state(made.get_state(), {"p0": spec(), "dqn": spec(DQNModule)})
    assert equal(again.get_state(), made.get_state())


def test_a_slim_policy_beside_full_ones(tmp_path: Path) -> None:
    made = Algorithm({"p0": spec(inference_only=True).build(), "p1": spec().build()})
    restored = Algorithm.from_checkpoint(made.save_to_path(tmp_path / "a"))
    assert restored.get_policy("p0").module.inference_only
    assert not restored.get_policy("p1").module.inference_only


def test_policies_of_a_container_share_their_layers_again(tmp_path: Path) -> None:
    made = Algorithm(Shared({name: spec(Trunk).build() for name in ("p0", "p1")}))
    path = made.save_to_path(tmp_path / "a")
    restored: Any = Algorithm.from_checkpoint(path, trust=OWN)
    assert restored.get_policy("p0").module.trunk is restored.get_policy("p1").module.trunk
    policies: Any = Policy.from_checkpoint(path, trust=OWN)
    assert policies["p0"].module.trunk is policies["p1"].module.trunk
    with pytest.raises(TieError):
        Policy.from_checkpoint(path, ["p0"], trust=OWN)


def test_policies_tied_by_hand_come_back_tied(tmp_path: Path) -> None:
    made: Any = algorithm("p0", "p1")
    made.get_policy("p1").module.pi = made.get_policy("p0").module.pi
    path = made.save_to_path(tmp_path / "a")
    whole: Any = Algorithm.from_checkpoint(path).policies
    chosen: Any = Policy.from_checkpoint(path, ["p0", "p1"])
    for found in (whole, chosen):
        assert found["p0"].module.pi.logits.weight is found["p1"].module.pi.logits.weight


def test_meta_reads_no_array(tmp_path: Path) -> None:
    path = Path(algorithm("p0").save_to_path(tmp_path / "a"))
    (path / "policies" / "p0" / "state.h5").unlink()
    for made in (
        Algorithm.from_checkpoint(path, device="meta"),
        Algorithm.from_checkpoint(path, ["p0"], device="meta"),
    ):
        assert all(tensor.is_meta for tensor in made.get_policy("p0").module.parameters())


def test_metadata_comes_back(tmp_path: Path) -> None:
    policy = spec().build()
    policy.metadata = {"trained": True}
    made = Algorithm({"p0": policy})
    path = made.save_to_path(tmp_path / "a")
    assert Algorithm.from_checkpoint(path).get_policy("p0").metadata == {"trained": True}
    fresh = algorithm("p0")
    fresh.restore_from_path(path)
    assert fresh.get_policy("p0").metadata == {"trained": True}


def test_the_container_is_the_plain_one() -> None:
    snapshot = snapshot_of(algorithm("p0"))
    assert snapshot.spec.to_json() == {"class": "rlpipe.algorithms.algorithm.Algorithm", "config": {}, "options": {}}
    container = snapshot.children["policies"].spec.to_json()
    assert container == {"class": "rlpipe.modules.multi_rl_module.MultiRLModule", "config": {}, "options": {}}
    built: Any = build(snapshot)
    assert isinstance(built.policies, MultiRLModule)
