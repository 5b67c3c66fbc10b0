from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from hypothesis import given

from rlpipe.errors import SpaceError
from rlpipe.snapshot.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
    describe,
    flat_batch,
    flat_items,
    from_gymnasium,
    from_json,
    nested_batch,
    to_gymnasium,
    to_json,
)
from tests.snapshot.spaces.strategies import gymnasium_spaces

BITS: dict[type, Callable[[Any], Any]] = {
    gym_spaces.Box: lambda space: (space.dtype.str, space.shape, space.low.tobytes(), space.high.tobytes()),
    gym_spaces.Discrete: lambda space: (space.dtype.str, int(space.n), int(space.start)),
    gym_spaces.MultiDiscrete: lambda space: (space.dtype.str, space.shape, space.nvec.tobytes(), space.start.tobytes()),
    gym_spaces.MultiBinary: lambda space: space.shape,
    gym_spaces.Dict: lambda space: [(key, bits(part)) for key, part in sorted(space.items())],
    gym_spaces.Tuple: lambda space: [bits(part) for part in space],
    gym_spaces.Text: lambda space: (space.min_length, space.max_length, space.character_list),
}


def bits(space: Any) -> Any:
    """Everything that a gymnasium space says, exactly; its own == takes close bounds for equal."""
    return type(space), BITS[type(space)](space)


@given(gymnasium_spaces)
def test_gymnasium_spaces_come_back_bit_for_bit(space: Any) -> None:
    text = json.dumps(to_json(from_gymnasium(space)), allow_nan=False)
    back = to_gymnasium(from_json(json.loads(text)))
    assert back == space
    assert bits(back) == bits(space)


@given(gymnasium_spaces)
def test_json_and_hash_follow_equality(space: Any) -> None:
    ours = from_gymnasium(space)
    back = from_json(json.loads(json.dumps(to_json(ours))))
    assert back == ours
    assert hash(back) == hash(ours)
    assert to_json(back) == to_json(ours)
    assert "\n" not in describe(ours)
    assert repr(ours) == describe(ours)


def test_json_is_plain_and_compact() -> None:
    assert to_json(Box.uniform(-np.inf, 4.5, (84, 84, 4), "float32")) == {
        "version": 1,
        "type": "Box",
        "shape": [84, 84, 4],
        "dtype": "float32",
        "low": "-inf",
        "high": 4.5,
    }
    per_element = Box(np.array([-np.inf, -1], np.float32), np.array([1, np.inf], np.float32), np.dtype("float32"))
    assert (to_json(per_element)["low"], to_json(per_element)["high"]) == (["-inf", -1.0], [1.0, "inf"])
    assert to_json(Dict({"b": Discrete(2), "a": MultiBinary((3,))})) == {
        "version": 1,
        "type": "Dict",
        "spaces": {
            "a": {"type": "MultiBinary", "shape": [3]},
            "b": {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"},
        },
    }


@pytest.mark.parametrize(
    ("written", "space"),
    [
        ({"type": "Discrete", "n": 3}, Discrete(3)),
        ({"type": "Box", "low": -1, "high": "inf", "shape": [2]}, Box.uniform(-1, np.inf, (2,))),
        (
            {"type": "Box", "low": 0, "high": 255, "shape": (4, 4), "dtype": "uint8"},
            Box.uniform(0, 255, (4, 4), "uint8"),
        ),
        ({"type": "Box", "low": [0, 1], "high": 2}, Box(np.array([0, 1]), np.array([2, 2]), np.dtype("float32"))),
        ({"type": "MultiDiscrete", "nvec": [2, 3], "start": [1, 1]}, MultiDiscrete(np.array([2, 3]), np.array([1, 1]))),
        (
            {"type": "Tuple", "spaces": [{"type": "Text", "min_length": 0, "max_length": 2, "charset": "ab"}]},
            Tuple((Text(0, 2, "ab"),)),
        ),
    ],
)
def test_people_may_leave_out_what_is_usual(written: Any, space: Space) -> None:
    assert from_json(written) == space


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        (None, ["space is no space", "None"]),
        ([], ["is no space"]),
        ({"type": "Bux"}, ["did you mean Box"]),
        ({"type": ["Box"]}, ["is no space"]),
        ({"type": "Discrete", "n": 2, "version": 9}, ["version 1", "version 9", "update rlpipe"]),
        ({"type": "Discrete"}, ["no n"]),
        ({"type": "Discrete", "n": 2, "strat": 1}, ["unknown strat", "did you mean start"]),
        ({"type": "Discrete", "n": 0}, ["n of Discrete", "at least 1"]),
        ({"type": "Discrete", "n": True}, ["no whole number"]),
        ({"type": "Discrete", "n": 2.0}, ["no whole number"]),
        ({"type": "Discrete", "n": 300, "dtype": "uint8"}, ["does not fit", "uint8"]),
        ({"type": "Discrete", "n": 2, "dtype": "float32"}, ["wrong dtype"]),
        ({"type": "Discrete", "n": 2, "dtype": "object"}, ["wrong dtype"]),
        ({"type": "MultiDiscrete", "nvec": [2, 0]}, ["too small"]),
        ({"type": "MultiDiscrete", "nvec": [2, 1.5]}, ["does not fit"]),
        ({"type": "MultiDiscrete", "nvec": [2, 3], "start": [1]}, ["wrong shape"]),
        ({"type": "MultiBinary", "shape": 3}, ["no shape"]),
        ({"type": "MultiBinary", "shape": [-1]}, ["too small"]),
        ({"type": "Box", "low": 1, "high": 0, "shape": [1]}, ["above high"]),
        ({"type": "Box", "low": "nan", "high": 0, "shape": [1]}, ["no number"]),
        ({"type": "Box", "low": float("nan"), "high": 0, "shape": [1]}, ["does not fit"]),
        ({"type": "Box", "low": 0, "high": 256, "shape": [1], "dtype": "uint8"}, ["does not fit", "256"]),
        ({"type": "Box", "low": 0, "high": "inf", "shape": [1], "dtype": "int64"}, ["does not fit"]),
        ({"type": "Box", "low": 0, "high": 1e39, "shape": [1]}, ["does not fit"]),
        ({"type": "Box", "low": 0, "high": 1, "shape": [1], "dtype": "complex64"}, ["wrong dtype"]),
        ({"type": "Box", "low": 0, "high": 1, "shape": [1], "dtype": None}, ["wrong dtype", "None"]),
        ({"type": "Box", "low": 0, "high": 1, "shape": [1], "dtype": "f4,f4"}, ["wrong dtype"]),
        ({"type": "Box", "low": "inf", "high": "inf", "shape": [1]}, ["no number"]),
        ({"type": "Box", "low": [0, 0], "high": [1, 1, 1]}, ["wrong shape"]),
        ({"type": "Box", "low": [[0], [0, 1]], "high": 1}, ["does not fit"]),
        ({"type": "Box", "low": 0, "high": 1, "shape": [10**12, 10**12]}, ["wrong shape"]),
        ({"type": "Text", "min_length": 2, "max_length": 1, "charset": "a"}, ["max_length"]),
        ({"type": "Text", "min_length": 1, "max_length": 1, "charset": "aa"}, ["charset"]),
        ({"type": "Dict", "spaces": []}, ["spaces of space"]),
        ({"type": "Dict", "spaces": {1: {"type": "Discrete", "n": 2}}}, ["cannot be in a Dict"]),
        (
            {"type": "Dict", "spaces": {"a": {"type": "Tuple", "spaces": [{"type": "Discrite", "n": 2}]}}},
            ["space.a.0 is no", "Discrete"],
        ),
        ({"type": "Tuple", "spaces": {}}, ["spaces of space"]),
    ],
)
def test_what_is_wrong_is_named(written: Any, parts: list[str]) -> None:
    with pytest.raises(SpaceError) as caught:
        from_json(written)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_a_huge_shape_takes_no_memory() -> None:
    box = from_json({"type": "Box", "low": 0, "high": 1, "shape": [10**6, 10**6, 10**3]})
    assert isinstance(box, Box)
    assert box.shape == (10**6, 10**6, 10**3)
    assert to_json(box)["shape"] == [10**6, 10**6, 10**3]


def test_a_space_nested_without_end_is_refused() -> None:
    space: dict[str, Any] = {"type": "Discrete", "n": 2}
    for _ in range(5000):
        space = {"type": "Tuple", "spaces": [space]}
    with pytest.raises(SpaceError, match="too deeply"):
        from_json(space)


def test_the_order_of_keys_is_nothing() -> None:
    ordered = gym_spaces.Dict(OrderedDict([("b", gym_spaces.Discrete(2)), ("a", gym_spaces.Discrete(3))]))
    assert from_gymnasium(ordered) == Dict({"a": Discrete(3), "b": Discrete(2)})


def test_rlpipe_spaces_pass_through() -> None:
    space = Discrete(2)
    assert from_gymnasium(space) is space


def test_a_space_that_rlpipe_lacks_is_refused() -> None:
    with pytest.raises(SpaceError, match="Sequence"):
        from_gymnasium(gym_spaces.Sequence(gym_spaces.Discrete(2)))


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1", "Taxi-v4", "Blackjack-v1"]
)
def test_spaces_of_real_environments(env_id: str) -> None:
    with gymnasium.make(env_id) as env:
        for space in (env.observation_space, env.action_space):
            assert bits(to_gymnasium(from_gymnasium(space))) == bits(space)


NEST = Dict({"b": Tuple((Discrete(2), MultiBinary((2,)))), "a": Box.uniform(0, 1, (3,))})


def test_flat_names_are_sorted_paths() -> None:
    assert [name for name, _ in flat_items(NEST, "obs")] == ["obs.a", "obs.b.0", "obs.b.1"]
    assert flat_items(Discrete(2), "action") == [("action", Discrete(2))]
    assert [(leaf.shape, leaf.dtype.name) for _, leaf in flat_items(NEST, "obs")] == [
        ((3,), "float32"),
        ((), "int64"),
        ((2,), "int8"),
    ]


def test_flat_names_that_clash_are_refused() -> None:
    clash = Dict({"a.b": Discrete(2), "a": Dict({"b": Discrete(2)})})
    with pytest.raises(SpaceError, match=r"obs\.a\.b"):
        flat_items(clash, "obs")


def test_batches_flatten_and_come_back() -> None:
    batch = NEST.sample(4, np.random.default_rng(0))
    arrays = flat_batch(NEST, batch, "obs")
    assert list(arrays) == [name for name, _ in flat_items(NEST, "obs")]
    assert arrays["obs.b.0"] is batch["b"][0]
    back = nested_batch(NEST, arrays, "obs")
    assert isinstance(back["b"], tuple)
    assert back["b"][1] is batch["b"][1]


@pytest.mark.parametrize("batch", [{"a": 0}, {"a": 0, "b": (0, 0), "c": 0}, {"a": 0, "b": (0,)}, [], 0])
def test_batches_of_other_parts_are_refused(batch: Any) -> None:
    with pytest.raises(SpaceError, match="wrong"):
        flat_batch(NEST, batch, "obs")
    assert not NEST.contains(batch)
