"""What every component that can be saved has to keep. A component's test subclasses this and makes a few of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.reader import read_checkpoint, read_manifest
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import build, object_at, restore_into, snapshot_of
from rlpipe.errors import SelectionError, SpecError, StateMismatchError
from rlpipe.snapshot import content_hash, walk
from rlpipe.snapshot.selection import Selection
from rlpipe.snapshot.state import entries, equal, from_entries

BACKENDS = ("hdf5", "pickle")


@dataclass(frozen=True)
class Case:
    """One component.

    Attributes:
        name: Name of the test.
        make: Makes one from a seed; equal seeds make equal ones.
        go_on: Lets it learn something.
        followers: Paths of parts that hold copies of others, and are brought in step with them after a restore.
    """

    name: str
    make: Callable[[int], Any]
    go_on: Callable[[Any], object]
    followers: tuple[str, ...] = ()


class ComponentSuite(ABC):
    """Subclass as `TestLearner(ComponentSuite)`, with `cases`."""

    trust: tuple[str, ...] = ()

    @staticmethod
    @abstractmethod
    def cases() -> list[Case]:
        """The components to test."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", self.cases(), ids=lambda case: case.name)

    def made(self, case: Case, seed: int = 0) -> Any:
        made = case.make(seed)
        case.go_on(made)
        return made

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_saved_restored_and_saved_again_it_is_the_same(self, case: Case, tmp_path: Path, backend: str) -> None:
        made = self.made(case)
        first = made.save_to_path(tmp_path / "first", backend=backend)
        restored = type(made).from_checkpoint(first, trust=self.trust)
        second = restored.save_to_path(tmp_path / "second", backend=backend)
        assert read_manifest(first).content_hash == read_manifest(second).content_hash
        assert read_manifest(first).inference_hash == read_manifest(second).inference_hash
        assert content_hash(snapshot_of(made)) == read_manifest(first).content_hash

    def test_every_component_in_it_does_so_alone(self, case: Case, tmp_path: Path) -> None:
        made = self.made(case)
        path = Path(made.save_to_path(tmp_path / "whole"))
        for name, _ in walk(snapshot_of(made)):
            alone = read_checkpoint(path / name)
            restored = build(alone, trust=self.trust)
            assert content_hash(snapshot_of(restored)) == read_manifest(path / name).content_hash, name

    def test_it_is_restored_into_a_live_one_that_went_on(self, case: Case, tmp_path: Path) -> None:
        made = self.made(case)
        path = made.save_to_path(tmp_path / "a")
        state = made.get_state()
        case.go_on(made)
        assert not equal(made.get_state(), state)
        made.restore_from_path(path)
        assert equal(made.get_state(), state)
        case.go_on(made)
        made.set_state(state)
        assert equal(made.get_state(), state)

    def test_each_part_is_restored_alone(self, case: Case, tmp_path: Path) -> None:
        made = self.made(case)
        path = Path(made.save_to_path(tmp_path / "a"))
        for name in [name for name, _ in walk(snapshot_of(made)) if name.partition("/")[0] not in case.followers]:
            case.go_on(made)
            part = object_at(made, name)
            restore_into(part, read_checkpoint(path / name))
            assert content_hash(snapshot_of(part)) == read_manifest(path / name).content_hash, name

    def test_states_are_copies(self, case: Case) -> None:
        made = self.made(case)
        state, again = made.get_state(), made.get_state()
        case.go_on(made)
        assert equal(state, again)

    def test_taking_a_state_changes_nothing(self, case: Case, tmp_path: Path) -> None:
        made = self.made(case)
        state = made.get_state()
        made.save_to_path(tmp_path / "a")
        made.get_metadata()
        assert equal(made.get_state(), state)

    def test_a_state_with_a_part_missing_or_too_much_changes_nothing(self, case: Case) -> None:
        made = self.made(case)
        state = made.get_state()
        for bad in (_less(state), {**state, "not_there": 1}):
            with pytest.raises(StateMismatchError):
                made.set_state(bad)
        assert equal(made.get_state(), state)

    def test_unknown_parts_are_named(self, case: Case) -> None:
        made = self.made(case)
        with pytest.raises(SelectionError):
            made.get_state(components="not_there")
        with pytest.raises(SpecError):
            made.restore_from_path("nowhere", component="not_there")

    def test_roles_cover_the_state(self, case: Case) -> None:
        for component in _everything(self.made(case)):
            assert component.get_own_roles().keys() == entries(component.get_own_state()).keys()

    def test_on_meta_no_array_is_read(self, case: Case, tmp_path: Path) -> None:
        made = self.made(case)
        path = Path(made.save_to_path(tmp_path / "a"))
        for file in path.rglob("state.h5"):
            file.unlink()
        type(made).from_checkpoint(path, device="meta", trust=self.trust)

    def test_building_it_draws_no_number_that_shows(self, case: Case, tmp_path: Path) -> None:
        made = self.made(case)
        path = made.save_to_path(tmp_path / "a")
        torch.manual_seed(1)
        first = type(made).from_checkpoint(path, trust=self.trust).get_state()
        torch.manual_seed(2)
        assert equal(type(made).from_checkpoint(path, trust=self.trust).get_state(), first)

    def test_another_root_is_refused(self, case: Case, tmp_path: Path) -> None:
        path = self.made(case).save_to_path(tmp_path / "a")

        class Other(Checkpointable):
            pass

        with pytest.raises(SpecError):
            Other.from_checkpoint(path, trust=self.trust)

    def test_a_selection_of_nothing_is_an_error(self, case: Case, tmp_path: Path) -> None:
        made = self.made(case)
        path = made.save_to_path(tmp_path / "a")
        with pytest.raises(SelectionError):
            restore_into(made, read_checkpoint(path), Selection(keys=("not_there/*",)))


def _less(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state without one entry."""
    found = entries(dict(state))
    del found[min(found)]
    return from_entries(found)


def _everything(component: Restorable) -> list[Restorable]:
    inside = [found for _, child in component.get_checkpointable_components() for found in _everything(child)]
    return [component, *inside]
