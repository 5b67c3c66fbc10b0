from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import SpecError
from rlpipe.policies.stages import (
    Affine,
    Argmax,
    Cast,
    Clip,
    Concat,
    Flatten,
    Layout,
    MultiArgmax,
    Normalize,
    OneHot,
    Parts,
    PerKey,
    Reshape,
    Round,
    Scale,
    Stage,
    Tanh,
    Threshold,
    Unscale,
    default_action_stages,
    default_observation_stages,
    prepared_space,
    stages_from_json,
    stages_to_json,
)
from rlpipe.snapshot.spaces import Box, Dict, Discrete, Leaf, Space, Text
from tests.policies.spaces import ACTIONS, OBSERVATIONS, any_space

finite = st.floats(-1e9, 1e9)
positive = st.floats(1e-6, 1e6)
many = st.one_of(finite, st.lists(finite, min_size=1, max_size=4).map(tuple))
whole = st.integers(-5, 5)
counts = st.lists(st.tuples(st.integers(1, 5), whole), min_size=1, max_size=4)
dtypes = st.sampled_from(["float32", "float64", "int64", "uint8", "bool"])
sorted_pairs = st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)).map(sorted)


def pairs(kind: Any) -> st.SearchStrategy[Stage]:
    return counts.map(lambda found: kind(*map(tuple, zip(*found, strict=True))))


either: st.SearchStrategy[Stage] = st.one_of(
    dtypes.map(Cast),
    st.just(Flatten()),
    st.permutations(range(3)).map(lambda axes: Layout(tuple(axes))),
    st.lists(st.integers(0, 5)).map(lambda shape: Reshape(tuple(shape))),
    sorted_pairs.map(lambda ends: Clip(*ends)),
    st.builds(Affine, many, many),
)
observation: st.SearchStrategy[Stage] = st.one_of(
    either,
    pairs(OneHot),
    st.builds(Scale, positive, finite),
    st.builds(Normalize, st.sampled_from(["var_eps", "std_eps"]), positive, st.one_of(st.none(), positive)),
    st.lists(st.text(min_size=1), min_size=1, unique=True).map(lambda keys: Concat(tuple(keys))),
)
nested: st.SearchStrategy[Stage] = st.one_of(
    observation, st.dictionaries(st.text(), st.lists(observation, max_size=3).map(tuple)).map(PerKey)
)
action: st.SearchStrategy[Stage] = st.one_of(
    either,
    whole.map(Argmax),
    pairs(MultiArgmax),
    finite.map(Threshold),
    st.sampled_from([Tanh(), Round()]),
    st.tuples(finite, finite).map(sorted).map(lambda ends: Unscale(*ends)),
)


@given(st.lists(nested).map(tuple))
def test_observation_stages_come_back_from_json(stages: tuple[Stage, ...]) -> None:
    text = json.dumps(stages_to_json(stages), allow_nan=False)
    assert stages_from_json(json.loads(text), side="observation") == stages


@given(st.lists(action).map(tuple))
def test_action_stages_come_back_from_json(stages: tuple[Stage, ...]) -> None:
    text = json.dumps(stages_to_json(stages), allow_nan=False)
    assert stages_from_json(json.loads(text), side="action") == stages


@given(any_space())
def test_default_stages_make_one_row_of_any_space(space: Space) -> None:
    stages = default_observation_stages(space)
    prepared = prepared_space(space, stages)
    assert isinstance(prepared, Box)
    assert prepared.dtype == np.float32
    assert len(prepared.shape) == 1
    assert stages_from_json(stages_to_json(stages), side="observation") == stages


@pytest.mark.parametrize(
    ("name", "types", "shape"),
    [
        ("row", [], (4,)),
        ("float64", ["cast"], (3,)),
        ("scalar", ["flatten"], (1,)),
        ("int32", ["cast", "flatten"], (4,)),
        ("uint8_row", ["cast"], (6,)),
        ("hwc", ["layout", "scale"], (3, 12, 10)),
        ("chw", ["scale"], (3, 12, 10)),
        ("discrete", ["one_hot"], (4,)),
        ("multi_discrete", ["one_hot"], (10,)),
        ("multi_binary", ["cast", "flatten"], (6,)),
        ("dict", ["per_key", "concat"], (3 + 2 + 64,)),
        ("tuple", ["per_key", "concat"], (4,)),
        ("nested", ["per_key", "concat"], (4,)),
    ],
)
def test_the_default_stages_of_a_space(name: str, types: list[str], shape: tuple[int, ...]) -> None:
    stages = default_observation_stages(OBSERVATIONS[name])
    assert [stage.type for stage in stages] == types
    prepared = prepared_space(OBSERVATIONS[name], stages)
    assert isinstance(prepared, Box)
    assert prepared.shape == shape
    assert prepared.dtype == np.float32


def test_a_scaled_image_lies_between_0_and_1() -> None:
    prepared = prepared_space(OBSERVATIONS["hwc"], default_observation_stages(OBSERVATIONS["hwc"]))
    assert isinstance(prepared, Box)
    assert (prepared.low.min(), prepared.high.max()) == (0, 1)


def test_text_has_no_default() -> None:
    with pytest.raises(SpecError, match="no default stages"):
        default_observation_stages(Dict({"note": Text(0, 4, "ab")}))


@pytest.mark.parametrize(
    ("name", "kind", "types"),
    [
        ("discrete", "logits", ["argmax"]),
        ("discrete", "q", ["argmax"]),
        ("discrete_int32", "q", ["argmax", "cast"]),
        ("discrete", "action", ["reshape", "cast"]),
        ("multi_discrete", "logits", ["multi_argmax"]),
        ("multi_discrete_matrix", "logits", ["multi_argmax", "reshape"]),
        ("multi_binary_matrix", "logits", ["threshold", "reshape"]),
        ("box", "mean", ["clip"]),
        ("box_float64", "mean", ["cast", "clip"]),
        ("box_float16", "mean", ["clip", "cast"]),
        ("box_matrix", "mean", ["reshape", "clip"]),
        ("box_int", "mean", ["cast", "clip", "round", "cast"]),
        ("free", "mean", []),
        ("box_matrix", "squashed", ["reshape", "tanh", "unscale"]),
        ("box_float64", "squashed", ["tanh", "cast", "unscale"]),
        ("box_matrix", "action", ["reshape", "cast", "clip"]),
    ],
)
def test_the_default_stages_of_an_action(name: str, kind: Any, types: list[str]) -> None:
    assert [stage.type for stage in default_action_stages(ACTIONS[name], kind)] == types


@pytest.mark.parametrize(
    ("name", "kind"), [("discrete", "mean"), ("box", "logits"), ("box", "q"), ("multi_binary", "q")]
)
def test_an_output_that_cannot_decide_is_refused(name: str, kind: Any) -> None:
    with pytest.raises(SpecError, match="cannot act in") as caught:
        default_action_stages(ACTIONS[name], kind)
    assert caught.value.found == kind


def test_squashed_actions_need_bounds() -> None:
    with pytest.raises(SpecError, match="needs two bounds") as caught:
        default_action_stages(ACTIONS["box"], "squashed")
    assert "finite bounds" in caught.value.fix


def test_composite_actions_have_stages_for_each_leaf() -> None:
    (parts,) = default_action_stages(Dict({"b": Box.uniform(-1, 1, (2,)), "a": Discrete(3)}), "logits")
    assert isinstance(parts, Parts)
    assert (parts.keys, parts.widths) == (("a", "b"), (3, 2))
    assert parts.stages == {"a": (Argmax(),), "b": (Clip(-1.0, 1.0),)}
    with pytest.raises(SpecError, match="cannot act in"):
        default_action_stages(Dict({"a": Text(0, 4, "ab")}), "logits")


@pytest.mark.parametrize(
    ("side", "value", "named"),
    [
        ("observation", [{"type": "one_hott", "nvec": [2], "start": [0]}], "one_hot"),
        ("observation", [{"type": "argmax", "start": 0}], "observation[0].type"),
        ("action", [{"type": "normalize"}], "action[0].type"),
        ("observation", [{"type": "flatten", "axes": 1}], "axes"),
        ("observation", [{"type": "cast"}], "dtype"),
        ("observation", [{"type": "cast", "dtype": "float3"}], "float32"),
        ("observation", [{"type": "scale", "divisor": 0}], "divisor not 0"),
        ("observation", [{"type": "scale", "divisor": "2"}], "no number"),
        ("observation", [{"type": "layout", "axes": [0, 0]}], "each axis once"),
        ("observation", [{"type": "one_hot", "nvec": [2, 3], "start": [0]}], "uneven"),
        ("observation", [{"type": "normalize", "formula": "var_eps", "eps": -1, "clip": None}], "out of range"),
        ("observation", [{"type": "normalize", "formula": "var", "eps": 0, "clip": None}], "var_eps"),
        ("observation", [{"type": "normalize", "formula": "var_eps", "clip": None}], "eps"),
        ("observation", [{"type": "concat", "keys": []}], "no keys"),
        ("observation", [{"type": "per_key", "stages": 3}], "stages"),
        ("observation", [{"type": "per_key", "stages": {"a": [{"type": "flaten"}]}}], "observation[0].stages.a[0]"),
        ("observation", {"type": "flatten"}, "no list"),
        ("observation", ["flatten"], "no stage"),
        ("action", [{"type": "clip", "low": 1, "high": 0}], "low above high"),
        ("action", [{"type": "clip", "low": [], "high": 0}], "empty"),
        ("action", [{"type": "clip", "low": True, "high": 2}], "no number"),
        ("action", [{"type": "unscale", "low": "-inf", "high": 0}], "finite low and high"),
        ("action", [{"type": "affine", "scale": "inf", "offset": 0}], "not finite"),
        ("action", [{"type": "argmax", "start": 0.5}], "an integer"),
        ("action", [{"type": "multi_argmax", "nvec": [0], "start": [0]}], "at least 1"),
    ],
)
def test_what_is_no_stage_says_what_would_be(side: str, value: Any, named: str) -> None:
    with pytest.raises(SpecError) as caught:
        stages_from_json(value, side=side)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("stage", "space"),
    [
        (OneHot((3,), (0,)), Box.uniform(-1, 1, (3,))),
        (OneHot((3,), (0,)), Discrete(4)),
        (OneHot((3,), (0,)), Discrete(3, start=1)),
        (Cast("float32"), Discrete(4)),
        (Layout((1, 0)), Box.uniform(-1, 1, (3,))),
        (Reshape((2, 2)), Box.uniform(-1, 1, (3,))),
        (PerKey({"a": ()}), Dict({"b": Discrete(2)})),
        (PerKey({"a": ()}), Discrete(2)),
        (Concat(("a", "b")), Dict({"a": Box.uniform(-1, 1, (3,))})),
        (Concat(("a",)), Dict({"a": Discrete(2)})),
        (Concat(("a", "b")), Dict({"a": Box.uniform(-1, 1, (3,)), "b": Box.uniform(-1, 1, (3,), np.float64)})),
        (Argmax(), Box.uniform(-1, 1, (2, 2))),
        (MultiArgmax((2, 2), (0, 0)), Box.uniform(-1, 1, (3,))),
        (Clip((0.0, 1.0), 2.0), Box.uniform(-1, 1, (3,))),
    ],
)
def test_a_stage_refuses_a_space_that_it_cannot_take(stage: Stage, space: Space) -> None:
    with pytest.raises(SpecError):
        prepared_space(space, (stage,))


@pytest.mark.parametrize("name", ACTIONS)
def test_the_default_stages_lead_into_the_action_space(name: str) -> None:
    from rlpipe.policies.policy_spec import decision_space

    space = ACTIONS[name]
    assert isinstance(space, Leaf)
    for kind in ("logits", "mean", "action"):
        try:
            stages = default_action_stages(space, kind)
        except SpecError:
            continue
        made = prepared_space(decision_space(space, stages), stages)
        assert isinstance(made, Leaf)
        assert (made.shape, made.dtype) == (space.shape, space.dtype)
        if isinstance(space, Box):
            assert isinstance(made, Box)
            assert (made.low >= space.low).all()
            assert (made.high <= space.high).all()


def test_equal_numbers_are_written_once() -> None:
    assert Clip((-1.0, -1.0), (2.0, 2.0)) == Clip(-1, 2)
    assert stages_to_json([Clip((-1.0, 0.0), float("inf"))]) == [{"type": "clip", "low": [-1.0, 0.0], "high": "inf"}]


def test_stages_as_data_load_no_torch() -> None:
    code = "import sys, rlpipe.policies.policy_spec, rlpipe.modules.rl_module; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
