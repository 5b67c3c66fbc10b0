from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rlpipe.errors import ArtifactError, ObservationError, UnsupportedModuleError
from rlpipe.exporters.signature import Signature, TensorSpec, observation_arrays, signature_of
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple

ARM = Dict({"wrist": Box.uniform(-1, 1, (3, 2)), "grip": Discrete(3, start=-1)})
SPACE = Dict({"zoom": Box.uniform(0, 255, (4, 4, 3), np.uint8), "arm": ARM})


def test_names_are_sorted_at_every_level() -> None:
    signature = signature_of(SPACE, Tuple((Discrete(2), MultiBinary((3,)))))
    assert [spec.name for spec in signature.inputs] == ["obs.arm.grip", "obs.arm.wrist", "obs.zoom"]
    assert [spec.name for spec in signature.outputs] == ["action.0", "action.1"]


def test_a_single_space_needs_no_key() -> None:
    signature = signature_of(Box.uniform(-1, 1, (4,)), Discrete(2))
    assert [spec.name for spec in (*signature.inputs, *signature.outputs)] == ["obs", "action"]


@pytest.mark.parametrize(
    ("space", "dtype", "shape", "low", "high"),
    [
        (Box.uniform(-2, 2, (3,)), "float32", (3,), -2.0, 2.0),
        (Box.uniform(-np.inf, np.inf, (3,), np.float64), "float64", (3,), None, None),
        (Box.uniform(0, 255, (2, 2), np.uint8), "uint8", (2, 2), 0.0, 255.0),
        (Discrete(5, start=3), "int64", (), 3.0, 7.0),
        (MultiDiscrete(np.array([2, 5])), "int64", (2,), 0.0, (1.0, 4.0)),
        (MultiBinary((2, 2)), "int8", (2, 2), 0.0, 1.0),
    ],
)
def test_dtype_shape_and_bounds(space: Space, dtype: str, shape: tuple[int, ...], low: Any, high: Any) -> None:
    (spec,) = signature_of(space, Discrete(2)).inputs
    assert (spec.dtype, spec.shape, spec.low, spec.high) == (dtype, shape, low, high)


def test_bounds_that_are_none_on_one_side_only() -> None:
    low, high = np.array([-np.inf, 0, -3e38], np.float32), np.array([1, np.inf, np.finfo(np.float32).max], np.float32)
    (spec,) = signature_of(Box(low, high, np.dtype(np.float32)), Discrete(2)).inputs
    assert spec.low == (None, 0.0, float(np.float32(-3e38)))
    assert spec.high == (1.0, None, None)
    np.testing.assert_allclose(spec.largest(), [np.inf, np.inf, np.inf])


def test_the_largest_magnitude_has_the_shape() -> None:
    (spec,) = signature_of(Box.uniform(-2, 1, (2, 2)), Discrete(2)).inputs
    np.testing.assert_array_equal(spec.largest(), np.full((2, 2), 2.0))


def test_json_and_back() -> None:
    signature = signature_of(SPACE, Box.uniform(-1, np.inf, (2,)))
    text = json.dumps(signature.to_json(), allow_nan=False)
    assert Signature.from_json(json.loads(text)) == signature
    assert signature.to_json()["inputs"][2]["shape"] == ["batch", 4, 4, 3]


@pytest.mark.parametrize("value", [None, {}, {"inputs": []}, {"inputs": [{}], "outputs": []}, {"inputs": 3}])
def test_other_json_is_refused(value: Any) -> None:
    with pytest.raises(ArtifactError, match="no signature"):
        Signature.from_json(value)


def test_text_is_unsupported() -> None:
    with pytest.raises(UnsupportedModuleError, match=r"obs\.name holds no numbers"):
        signature_of(Dict({"name": Text(0, 3, "ab")}), Discrete(2))


def test_keys_that_clash_are_unsupported() -> None:
    one = Box.uniform(0, 1, (1,))
    with pytest.raises(UnsupportedModuleError, match=r"obs\.a\.b"):
        signature_of(Dict({"a.b": one, "a": Dict({"b": one})}), Discrete(2))


def batch(size: int = 2) -> dict[str, Any]:
    arm = {"wrist": np.zeros((size, 3, 2), np.float32), "grip": np.zeros(size, np.int64)}
    return {"arm": arm, "zoom": np.zeros((size, 4, 4, 3), np.uint8)}


def test_observations_by_name() -> None:
    arrays = observation_arrays(signature_of(SPACE, Discrete(2)), SPACE, batch())
    assert {name: array.shape for name, array in arrays.items()} == {
        "obs.arm.grip": (2,),
        "obs.arm.wrist": (2, 3, 2),
        "obs.zoom": (2, 4, 4, 3),
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"zoom": np.zeros((2, 4, 4, 3), np.float32)}, "obs.zoom: float32"),
        ({"zoom": np.zeros((2, 4, 4), np.uint8)}, r"obs.zoom: uint8 \[2, 4, 4\]"),
        ({"zoom": np.zeros((4, 4, 3), np.uint8)}, r"obs.zoom: uint8 \[4, 4, 3\]"),
        ({"zoom": np.zeros((3, 4, 4, 3), np.uint8)}, "batch of 3"),
        ({"zoom": [[1]]}, "no numpy array but list"),
        ({"zoom": np.uint8(3)}, "no numpy array"),
        ({"extra": np.zeros(2)}, "extra"),
    ],
)
def test_observations_that_do_not_fit_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ObservationError, match=said):
        observation_arrays(signature_of(SPACE, Discrete(2)), SPACE, {**batch(), **wrong})


def test_every_misfit_is_in_one_error() -> None:
    given = {"arm": {"wrist": np.zeros((2, 3), np.float32), "grip": np.zeros(2, np.int32)}, "zoom": batch()["zoom"]}
    with pytest.raises(ObservationError) as caught:
        observation_arrays(signature_of(SPACE, Discrete(2)), SPACE, given)
    assert "obs.arm.wrist" in caught.value.found
    assert "obs.arm.grip: int32" in caught.value.found
    assert "obs.zoom: uint8 [batch, 4, 4, 3]" in caught.value.expected


def test_a_tensor_on_one_line() -> None:
    assert TensorSpec(name="obs", dtype="float32", shape=(4,)).describe() == "obs: float32 [batch, 4]"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("obs", "observation"),
        ("obs.state.0", "observation"),
        ("state.0", "state"),
        ("state.12.next", "next_state"),
        ("episode_start", "episode_start"),
        ("action_mask", "action_mask"),
        ("noise", "noise"),
        ("action", "action"),
        ("action.0.next", "action"),
        ("logits", "extra"),
    ],
)
def test_the_name_of_a_tensor_says_what_it_is_for(name: str, kind: str) -> None:
    spec = TensorSpec(name=name, dtype="float32", shape=(2,))
    assert spec.kind == kind
    assert spec.to_json()["kind"] == kind
    assert TensorSpec.from_json(spec.to_json()) == spec


def test_memory_leads_from_an_output_to_the_input_of_the_next_step() -> None:
    names = ("obs", "state.0", "state.1", "episode_start")
    inputs = tuple(TensorSpec(name=name, dtype="float32", shape=(2,)) for name in names)
    outputs = tuple(TensorSpec(name=n, dtype="float32", shape=(2,)) for n in ("action", "state.0.next", "state.1.next"))
    signature = Signature(inputs=inputs, outputs=outputs)
    assert signature.memory == {"state.0": "state.0.next", "state.1": "state.1.next"}
    assert [spec.name for spec in signature.of_kind("observation", "action")] == ["obs", "action"]
