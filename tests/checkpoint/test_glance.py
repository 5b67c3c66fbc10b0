"""What is proven of modules, and when: for what is saved, and not for what is overwritten."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.checkpoint.glance import glancing, is_glance
from rlpipe.checkpoint.restore import build, glance_of, objects_in, restore_into, snapshot_of
from rlpipe.errors import SpecError
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.snapshot import content_hash
from rlpipe.snapshot.spaces import Box, Discrete
from tests.algorithms.training import TRUST, learner, policy

OWN = ("tests.*",)


class Counting(RLModule):
    """Says how often it acted."""

    acted: ClassVar[int] = 0

    def setup(self) -> None:
        self.net = torch.nn.Linear(3, 2)

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        Counting.acted += 1
        return {"logits": self.net(batch["obs"])}


class Forgetful(Counting):
    """Has a tensor that no state holds."""

    def setup(self) -> None:
        super().setup()
        self.shift = torch.zeros(2)

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": super().forward_inference(batch)["logits"] + self.shift}


class Unbuildable(Counting):
    """Fails."""

    def setup(self) -> None:
        raise ValueError


def module(kind: type[RLModule] = Counting, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return RLModuleSpec(kind, Box.uniform(-1, 1, (3,)), Discrete(2)).build(trust=OWN)


def acts(run: Callable[[], object]) -> int:
    before = Counting.acted
    run()
    return Counting.acted - before


def test_what_is_saved_is_proven_once_and_what_is_restored_is_not(tmp_path: Path) -> None:
    made, other = module(), module(seed=1)
    assert acts(lambda: made.save_to_path(tmp_path / "a")) > 0
    assert acts(lambda: made.save_to_path(tmp_path / "b")) == 0
    state, snapshot = made.get_state(), snapshot_of(made)
    for restore in (
        lambda: other.restore_from_path(tmp_path / "a"),
        lambda: other.set_state(state),
        lambda: restore_into(other, snapshot),
        lambda: build(snapshot, trust=OWN),
        lambda: Counting.from_checkpoint(tmp_path / "a"),
    ):
        assert acts(restore) == 0
    assert acts(other.get_state) > 0
    assert content_hash(snapshot_of(other)) == content_hash(snapshot)


def test_what_would_not_come_back_is_still_refused_where_it_is_saved(tmp_path: Path) -> None:
    made = module(Forgetful)
    path = made.save_to_path(tmp_path / "a")
    made.shift += 1
    with pytest.raises(SpecError, match="act differently"):
        made.get_state()
    made.restore_from_path(path)
    with pytest.raises(SpecError, match="act differently"):
        made.save_to_path(tmp_path / "b")


def test_a_glance_ends_with_its_block() -> None:
    with glancing():
        assert is_glance()
        with pytest.raises(SpecError), glancing():
            objects_in(module(Unbuildable))
        assert is_glance()
    assert not is_glance()
    made = module()
    assert content_hash(glance_of(made)) == content_hash(snapshot_of(made))


def test_the_components_of_an_object_by_path() -> None:
    made = learner(None, "p0", "p1")
    found = objects_in(made)
    assert list(found) == ["", "p0", "p0/policy", "p1", "p1/policy"]
    assert found[""] is made
    assert found["p1"] is made["p1"]


def test_the_seeds_of_other_devices_are_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seeds: list[int] = []
    made = policy()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    before = torch.get_rng_state()
    made.save_to_path(tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), before)
    assert seeds == []


def _calls(count: int, folder: Path) -> dict[str, int]:
    """How many functions are called to save and restore so many policies with a learner."""
    policies = {f"p{index}": policy(index) for index in range(count)}
    made = Algorithm(policies, learner=Learner.for_policies(policies, learner()["p0"].training, trust=TRUST))
    path = folder / str(count)
    ways: dict[str, Callable[[], object]] = {
        "save": lambda: made.save_to_path(path),
        "build": lambda: Algorithm.from_checkpoint(path, trust=TRUST),
        "restore": lambda: made.restore_from_path(path),
        "state": lambda: made.set_state(made.get_state()),
    }
    found = {}
    for name, way in ways.items():
        profile = cProfile.Profile()
        profile.runcall(way)
        found[name] = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return found


def test_the_work_grows_as_the_number_of_policies(tmp_path: Path) -> None:
    _calls(1, tmp_path)
    few, some, many = (_calls(count, tmp_path) for count in (4, 12, 36))
    for name in few:
        first, second = some[name] - few[name], many[name] - some[name]
        assert second < 3.3 * first, name
