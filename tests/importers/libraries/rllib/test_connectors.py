"""What stands between environment and module, as env runners keep it."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.connectors import agents_of, read_connectors
from rlpipe.importers.libraries.rllib.constructors import read_constructor
from rlpipe.importers.restricted.values import Name
from tests.importers.rllib_folders import CONNECTORS, GOLDEN, copied

RUNNER = "env_runner"


@pytest.mark.parametrize(
    ("name", "before", "bounds"),
    [
        ("ppo_choices", [], (True, False)),
        ("ppo_filtered", ["MeanStdFilter"], (True, False)),
        ("ppo_flattened", ["FlattenObservations", "MeanStdFilter"], (True, False)),
        ("ppo_frames", ["FrameStacking"], (True, False)),
        ("ppo_clipped", [], (False, True)),
        ("ray_2_40", ["MeanStdFilter"], (True, False)),
    ],
)
def test_pieces_that_change_numbers_are_kept_in_order(name: str, before: list[str], bounds: tuple[bool, bool]) -> None:
    found = read_connectors(GOLDEN / name / RUNNER)
    assert found is not None
    assert [piece.class_name for piece in found.before] == before
    assert (found.normalizes_actions, found.clips_actions) == bounds


def test_agents_are_named_by_the_space_of_all() -> None:
    found = read_connectors(GOLDEN / "pair_filtered" / RUNNER)
    assert found is not None
    assert sorted(agents_of(found.observation_space)) == ["left", "right"]
    assert agents_of(None) == {}


@pytest.mark.parametrize("gone", [CONNECTORS, f"{RUNNER}/module_to_env_connector", RUNNER])
def test_a_runner_without_both_pipelines_has_none(gone: str, tmp_path: Path) -> None:
    root = copied("ppo_filtered", tmp_path)
    shutil.rmtree(root / gone)
    assert read_connectors(root / RUNNER) is None


class Odd:
    """Stands for a piece that someone wrote."""


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ([(Odd, (), {})], "Odd"),
        ([("a piece",)], "pieces of an unknown form"),
        ([7], "pieces of an unknown form"),
    ],
)
def test_pieces_that_are_not_known_are_named(entries: Any, named: str, tmp_path: Path) -> None:
    root = copied("ppo_filtered", tmp_path)
    file = root / CONNECTORS / "class_and_ctor_args.pkl"
    file.write_bytes(pickle.dumps({"class": Odd, "ctor_args_and_kwargs": ((), {"connectors": entries})}))
    with pytest.raises(ForeignFormatError, match="cannot be imported") as caught:
        read_connectors(root / RUNNER)
    assert named in caught.value.found


def test_classes_are_names_and_nothing_is_imported() -> None:
    kind = read_constructor(GOLDEN / "ppo_filtered" / CONNECTORS).kwargs["connectors"][0][0]
    assert isinstance(kind, Name)
