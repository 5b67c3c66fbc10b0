"""Files with other edges: each consumer's own checks again, by onnx and ONNX Runtime alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from rlpipe.errors import UnsupportedModuleError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.onnx_profile import Profile
from rlpipe.exporters.targets import onnx as target
from rlpipe.exporters.verify import verify
from tests.exporters.graphs import EXAMPLES, Example, greedy, many_inputs, normalised

RSL_RL = Profile(
    id="rsl_rl",
    inputs={"obs": {"name": "obs", "dtype": "float32"}},
    outputs={"action": {"name": "actions", "dtype": "float32"}},
    batch="fixed",
)
GAME = Profile(
    id="game",
    inputs={
        "obs.image": {"name": "obs_0", "dtype": "float32", "layout": "chw"},
        "obs.mode": {"name": "mode", "dtype": "int32"},
        "obs.vector": {"name": "obs_1"},
    },
    constants={"version_number": {"dtype": "float32", "value": [3]}, "memory_size": {"dtype": "int64", "value": [0]}},
    metadata={"policy": "rlpipe.fingerprint"},
    ir=9,
)
ESSENTIALS = {"rlpipe.fingerprint": "0123456789ab", "rlpipe.trained": "true"}


def write(example: Example, profile: Profile, folder: Path) -> Path:
    file = folder / "policy.onnx"
    with captured():
        target.export(example.traced(), file, target.Options(profile=profile), ESSENTIALS)
    return file


def edges(items: Any) -> list[tuple[str, int, list[Any]]]:
    return [
        (
            item.name,
            item.type.tensor_type.elem_type,
            [dim.dim_value or dim.dim_param for dim in item.type.tensor_type.shape.dim],
        )
        for item in items
    ]


def test_rsl_rl_gives_what_its_consumers_ask_for(tmp_path: Path) -> None:
    example = normalised()
    file = write(example, RSL_RL, tmp_path)
    model = onnx.load(file)
    assert edges(model.graph.input) == [("obs", onnx.TensorProto.FLOAT, [1, 24])]
    assert edges(model.graph.output) == [("actions", onnx.TensorProto.FLOAT, [1, 6])]
    observations = example.reference().observations.arrays["obs"]
    expected = example.reference().actions["action"]
    session = onnxruntime.InferenceSession(str(file))
    for row in range(20):
        (found,) = session.run(["actions"], {"obs": observations[row : row + 1]})
        np.testing.assert_allclose(found, expected[row : row + 1], atol=1e-5)


def test_choices_become_the_type_that_is_asked_for(tmp_path: Path) -> None:
    example = greedy()
    session = onnxruntime.InferenceSession(str(write(example, RSL_RL, tmp_path)))
    (found,) = session.run(["actions"], {"obs": np.ones((1, 4), np.float32)})
    assert found.dtype == np.float32
    assert found == example.compute({"obs": np.ones((1, 4), np.float32)})["action"]


def test_images_constants_and_metadata(tmp_path: Path) -> None:
    example = many_inputs()
    file = write(example, GAME, tmp_path)
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    kinds = onnx.TensorProto
    assert edges(model.graph.input) == [
        ("obs_0", kinds.FLOAT, ["batch", 3, 8, 8]),
        ("mode", kinds.INT32, ["batch"]),
        ("obs_1", kinds.FLOAT, ["batch", 5]),
    ]
    assert model.ir_version == 9
    props = {prop.key: prop.value for prop in model.metadata_props}
    assert props["policy"] == "0123456789ab"
    assert "rlpipe.trained" not in props
    assert json.loads(props["rlpipe.profile"])["id"] == "game"
    arrays = {name: array[:5] for name, array in example.reference().observations.arrays.items()}
    feeds = {
        "obs_0": np.moveaxis(arrays["obs.image"], -1, 1).astype(np.float32),
        "mode": arrays["obs.mode"].astype(np.int32),
        "obs_1": arrays["obs.vector"],
    }
    found = dict(
        zip(
            (output.name for output in model.graph.output),
            onnxruntime.InferenceSession(str(file)).run(None, feeds),
            strict=True,
        )
    )
    for name, expected in example.compute(arrays).items():
        np.testing.assert_array_equal(found[name], expected)
    assert (found["version_number"].tolist(), found["memory_size"].tolist()) == ([3.0], [0])


@pytest.mark.parametrize(("example", "profile"), [(normalised, RSL_RL), (greedy, RSL_RL), (many_inputs, GAME)])
def test_the_loader_gives_the_signature_back(example: Any, profile: Profile, tmp_path: Path) -> None:
    file = write(example(), profile, tmp_path)
    found = verify(target, file, example().signature, example().reference(), Tolerance(atol=1e-5, rtol=1e-5))
    assert (found.status, found.message) == ("ok", "")
    contract = next(level for level in found.levels if level.name == "L2 contract")
    assert contract.status == "ok"


def test_policies_with_other_tensors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModuleError, match="with other inputs"):
        write(many_inputs(), RSL_RL, tmp_path)


def test_operators_that_are_not_allowed_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModuleError, match="Tanh"):
        write(normalised(), Profile(id="small", operators=("Gemm", "Sub", "Div", "Clip")), tmp_path)


def test_facts_that_are_not_known_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModuleError, match=r"rlpipe\.metadata"):
        write(normalised(), Profile(id="mjlab", metadata={"joint_names": "rlpipe.metadata"}), tmp_path)


def test_the_default_profile_changes_nothing(tmp_path: Path) -> None:
    model = onnx.load(write(EXAMPLES["several"](), Profile(), tmp_path))
    assert {prop.key for prop in model.metadata_props} == set(ESSENTIALS)
