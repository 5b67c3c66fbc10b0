"""Files with other edges: each consumer's own checks again, by onnx and ONNX Runtime alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from rlpipe.errors import UnsupportedModuleError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.onnx_profile import Profile
from rlpipe.exporters.signature import Signature
from rlpipe.exporters.targets import onnx as target
from rlpipe.exporters.verify import verify
from tests.exporters.graphs import EXAMPLES, Example, greedy, many_inputs, normalised
from tests.exporters.steps import STEPS, Step, by_formula, gated, put, remembers, stacks

PROFILES = Path(__file__).parents[2] / "conf" / "_profiles" / "onnx"
RSL_RL = Profile(**OmegaConf.to_container(OmegaConf.load(PROFILES / "rsl_rl.yaml")))  # type: ignore[arg-type]
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


def write(example: Example | Step, profile: Profile, folder: Path) -> Path:
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


def without_logits() -> Step:
    """A GRU that takes no mask and gives no more than rsl_rl knows."""
    whole = gated(layers=2)

    class Slim(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = whole.module

        def forward(self, obs: torch.Tensor, hidden: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, ...]:
            mask = torch.ones_like(obs[:, :4], dtype=torch.bool)
            _, hidden, logits = self.whole(obs, hidden, start, mask)
            return logits, hidden

    inputs, outputs = whole.signature.inputs[:3], whole.signature.outputs
    signature = Signature(inputs=inputs, outputs=(put("action", "float32", 4), outputs[1]))
    return Step(Slim().eval(), signature)


CONSUMED = {"lstm": (remembers, ("h", "c"), (2, 1, 8), 3), "gru": (without_logits, ("h",), (2, 1, 7), 4)}


@pytest.mark.parametrize("kind", CONSUMED)
def test_rsl_rl_plays_policies_with_memory(kind: str, tmp_path: Path) -> None:
    """As rsl_rl's exporter declares them and Isaac Lab's play scripts run them: memory outside, zeros at the start."""
    make, memory, shape, width = CONSUMED[kind]
    example = make()
    file = write(example, RSL_RL, tmp_path)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    taken = [(put.name, put.type, put.shape) for put in session.get_inputs()]
    given = [(put.name, put.type, put.shape) for put in session.get_outputs()]
    real = "tensor(float)"
    assert taken == [("obs", real, [1, 5]), *((f"{name}_in", real, list(shape)) for name in memory)]
    assert given == [("actions", real, [1, width]), *((f"{name}_out", real, list(shape)) for name in memory)]
    fed = example.draw(200, 1, seed=4)
    expected = example.played(example.compute, fed)
    held = {f"{name}_in": np.zeros(shape, np.float32) for name in memory}
    for index, obs in enumerate(fed["obs"]):
        if fed["episode_start"][index, 0]:
            held = {name: np.zeros_like(array) for name, array in held.items()}
        actions, *following = session.run(None, {"obs": obs, **held})
        held = dict(zip(held, following, strict=True))
        np.testing.assert_allclose(actions, expected["action"][index], atol=1e-5)


@pytest.mark.parametrize("make", [remembers, without_logits])
@pytest.mark.parametrize("batch", ["fixed", "dynamic"])
def test_the_loader_gives_a_memory_back(make: Any, batch: Any, tmp_path: Path) -> None:
    example = make()
    file = write(example, dataclasses.replace(RSL_RL, batch=batch), tmp_path)
    runner, fed = target.load(str(file)), example.draw(60, 3, seed=5)
    found, expected = example.played(runner, fed), example.played(example.compute, fed)
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5)
    single = {name: array[0] for name, array in fed.items()}
    for name, wrong in (("state.0", single["state.0"][:, :1]), ("episode_start", single["episode_start"][:, None])):
        with pytest.raises(ValueError, match=name):
            runner({**single, name: wrong})


def test_a_memory_of_a_batch_that_is_dynamic_lies_where_it_is_asked_for(tmp_path: Path) -> None:
    model = onnx.load(write(remembers(), dataclasses.replace(RSL_RL, batch="dynamic"), tmp_path))
    shapes = {name: shape for name, _, shape in edges([*model.graph.input, *model.graph.output])}
    assert shapes["h_in"] == shapes["c_out"] == [2, "batch", 8]
    assert shapes["obs"] == ["batch", 5]


def test_without_the_input_memory_that_does_not_begin_at_zero_is_found_out(tmp_path: Path) -> None:
    example = by_formula()
    names: dict[str, Any] = {f"state.{index}": {} for index in range(3)}
    profile = Profile(id="bare", inputs={"obs": {}, **names, "episode_start": {"constant": False}})
    runner, fed = target.load(str(write(example, profile, tmp_path))), example.draw(64)
    wrong = np.abs(runner(fed)["action"] - example.compute(fed)["action"]).max(axis=1) > 1e-5
    np.testing.assert_array_equal(wrong, fed["episode_start"])


def test_names_can_change_places_and_meet_names_inside(tmp_path: Path) -> None:
    names = ("state.1", "state.0", "gemm", "linear", "val_0", "mul")
    inputs = {"state.0": {"name": "state.1"}, "state.1": {"name": "state.0"}, "obs": {"name": "linear"}}
    outputs = {"action": {"name": "val_0"}, "state.1.next": {"name": "mul"}, "state.0.next": {"name": "tanh"}}
    profile = Profile(id="odd", inputs={**inputs, "episode_start": {"name": "gemm"}}, outputs=outputs)
    example = remembers()
    file = write(example, profile, tmp_path)
    assert [put.name for put in onnx.load(file).graph.input] == ["state.1", "state.0", "linear", "gemm"]
    assert set(names) <= {name for put in onnx.load(file).graph.node for name in (*put.input, *put.output)}
    fed = example.draw(9)
    for name, array in example.compute(fed).items():
        np.testing.assert_allclose(target.load(str(file))(fed)[name], array, atol=1e-5)


def test_axes_can_be_listed(tmp_path: Path) -> None:
    inputs = {"obs": {"layout": [3, 1, 0, 2]}, "state.0": {"layout": "chw"}, "episode_start": {"constant": False}}
    example = stacks()
    model = onnx.load(write(example, Profile(id="odd", inputs=inputs), tmp_path))
    assert [shape for _, _, shape in edges(model.graph.input)] == [[1, 6, "batch", 6], ["batch", 3, 6, 6]]
    with pytest.raises(UnsupportedModuleError, match="obs cannot have"):
        write(example, Profile(id="odd", inputs={**inputs, "obs": {"layout": [0, 1]}}), tmp_path)


def test_only_the_start_of_episodes_can_be_left_out(tmp_path: Path) -> None:
    profile = Profile(id="odd", inputs={"obs": {}, "action_mask": {"constant": True}})
    with pytest.raises(UnsupportedModuleError, match="takes action_mask out"):
        write(STEPS["parts"](), profile, tmp_path)


def test_policies_that_lack_what_is_not_optional_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModuleError, match="with other outputs"):
        write(normalised(), Profile(id="odd", outputs={"action": {}, "value": {}}), tmp_path)
    write(normalised(), Profile(id="odd", outputs={"action": {}, "value": {"optional": True}}), tmp_path)
