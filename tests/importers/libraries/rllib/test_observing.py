"""How imported policies see: connectors, statistics of agents, and what stands in the way."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError, NormalizerError
from rlpipe.importers.libraries.rllib import Options, read
from rlpipe.importers.libraries.rllib.connectors import Connectors
from rlpipe.importers.libraries.rllib.constructors import Constructor
from rlpipe.importers.libraries.rllib.observing import observe
from rlpipe.importers.libraries.rllib.reshaping import flat_stages
from rlpipe.importers.restricted.values import Record
from rlpipe.policies.stages import prepared_space
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from tests.importers.rllib_folders import CONNECTORS, copied


def renamed_piece(file: Path, old: bytes, new: bytes) -> None:
    data = file.read_bytes()
    assert old in data
    assert len(old) == len(new)
    file.write_bytes(data.replace(old, new))


def agents_alike(folder: Path) -> Connectors:
    """Two agents that see the same kind of thing, with statistics of their own."""
    box = {"low": np.full(2, -1, np.float32), "high": np.ones(2, np.float32)}
    alike = {name: Record("gymnasium.spaces.box.Box", state=box) for name in ("left", "right")}
    (folder / "MeanStdFilter").mkdir()
    ones = np.ones(2)
    running = {"num_pushes": 9, "mean_array": ones, "sum_sq_diff_array": ones}
    states = {name: {"clip_by_value": 10.0, "running_stats": [running]} for name in alike}
    (folder / "MeanStdFilter" / "state.pkl").write_bytes(pickle.dumps(states))
    return Connectors(
        folder=folder,
        observation_space=Record("gymnasium.spaces.dict.Dict", state={"spaces": alike}),
        before=(Constructor("ray.rllib.connectors.x.MeanStdFilter", (), {"multi_agent": True}),),
        after=None,
    )


def test_agents_that_see_alike_have_to_be_told_apart(tmp_path: Path) -> None:
    connectors = agents_alike(tmp_path)
    taken = Box.uniform(-10, 10, (2,), np.float32)
    with pytest.raises(NormalizerError, match=r"source\.filter_agent\.walker=left"):
        observe(taken, connectors, "walker", None)
    assert observe(taken, connectors, "walker", "right").notes == ("walker sees through the statistics of agent right",)
    assert observe(taken, connectors, "left", None).notes == ("left sees through the statistics of agent left",)


def test_an_agent_is_told_by_the_shape_of_what_it_sees(tmp_path: Path) -> None:
    pytest.importorskip("msgpack", reason="the extra rllib is not installed")
    found = read(copied("pair_filtered", tmp_path), Options())
    notes = " ".join(found.report.notes)
    assert "p_left sees through the statistics of agent left" in notes
    assert "p_right sees through the statistics of agent right" in notes


@pytest.mark.parametrize("agent", ["left", "right"])
def test_an_agent_can_be_named(agent: str, tmp_path: Path) -> None:
    pytest.importorskip("msgpack", reason="the extra rllib is not installed")
    root = copied("pair_filtered", tmp_path)
    options = Options(filter_agent={"p_left": agent})
    if agent == "left":
        assert read(root, options).snapshot.children["p_left"].state["observation"]
        return
    with pytest.raises(ForeignFormatError, match="do not lead to what the module p_left takes"):
        read(root, options)


def test_an_agent_that_is_not_there_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("msgpack", reason="the extra rllib is not installed")
    with pytest.raises(NormalizerError, match=r"source\.filter_agent\.p_left.*\n.*left, right"):
        read(copied("pair_filtered", tmp_path), Options(filter_agent={"p_left": "center"}))


def test_an_agent_for_a_policy_of_one_agent_is_refused(tmp_path: Path) -> None:
    options = Options(filter_agent={"default_policy": "left"})
    for name in ("ppo_filtered", "ppo_choices"):
        with pytest.raises(NormalizerError, match="leave it away"):
            read(copied(name, tmp_path), options)


@pytest.mark.parametrize(
    ("name", "folder", "piece", "other"),
    [
        ("ppo_filtered", CONNECTORS, b"MeanStdFilter", b"MeanStdFunner"),
        ("ppo_filtered", "env_runner/module_to_env_connector", b"GetActions", b"BetActions"),
        ("ppo_flattened", CONNECTORS, b"ray.rllib.connectors.common.flatten", b"ray_rllib.connectors.common.flatten"),
    ],
)
def test_connectors_that_are_not_known_are_named(
    name: str, folder: str, piece: bytes, other: bytes, tmp_path: Path
) -> None:
    root = copied(name, tmp_path)
    renamed_piece(root / folder / "class_and_ctor_args.pkl", piece, other)
    with pytest.raises(ForeignFormatError, match="changes observations or actions") as caught:
        read(root, Options())
    assert (other[:9].decode() in caught.value.found) or other.decode() in caught.value.found


def test_a_filter_without_its_state_is_refused(tmp_path: Path) -> None:
    root = copied("ppo_filtered", tmp_path)
    shutil.rmtree(root / CONNECTORS / "MeanStdFilter")
    with pytest.raises(ForeignFormatError, match="has no state"):
        read(root, Options())


def test_flattening_keeps_the_clip_of_the_filter_behind_it(tmp_path: Path) -> None:
    found = read(copied("ppo_flattened", tmp_path), Options())
    stages = found.snapshot.children["default_policy"].spec.config["observation"]
    assert [stage["type"] for stage in stages] == ["per_key", "concat", "normalize"]
    assert stages[-1]["clip"] == 2.0


F4 = np.dtype(np.float32)


@pytest.mark.parametrize(
    ("space", "width"),
    [
        (Box.uniform(-1, 1, (3,), F4), 3),
        (Box.uniform(-1, 1, (2, 3), np.float64), 6),
        (Box.uniform(0, 255, (4, 4, 3), np.uint8), 48),
        (Discrete(4, 2), 4),
        (MultiDiscrete(np.array([2, 3])), 5),
        (MultiBinary((4,)), 4),
        (Tuple((Discrete(2), Box.uniform(0, 1, (1,), F4))), 3),
        (Dict({"a": Discrete(2), "b": Dict({"c": Box.uniform(0, 1, (2,), F4)})}), 4),
    ],
)
def test_every_space_of_numbers_becomes_one_row(space: Any, width: int) -> None:
    made = prepared_space(space, flat_stages(space))
    assert isinstance(made, Box)
    assert (made.shape, made.dtype) == ((width,), F4)


def test_text_does_not() -> None:
    with pytest.raises(ForeignFormatError):
        flat_stages(Text(1, 4, "ab"))
