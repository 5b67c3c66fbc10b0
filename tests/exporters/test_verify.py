"""The verifier itself: every seeded bug of a real ONNX file has to be caught, and no right file refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from rlpipe.errors import ExportError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.reference import Reference
from rlpipe.exporters.targets import onnx as target
from rlpipe.exporters.verify import Verification, verify
from rlpipe.snapshot.spaces import Box, Discrete
from tests.exporters.graphs import Example, Normalised, normalised, unbounded

TOLERANCE = Tolerance(atol=1e-5, rtol=1e-5)
Mutate = Callable[[Any], None]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The right ONNX model of the normalised policy."""
    file = tmp_path_factory.mktemp("right") / "policy.onnx"
    with captured():
        target.export(normalised().traced(), file, target.Options(), {})
    return onnx.load(file)


@pytest.fixture(scope="module")
def truth() -> Reference:
    return normalised().reference()


def check(model: Any, truth: Reference, folder: Path) -> Verification:
    file = folder / "policy.onnx"
    onnx.save(model, file)
    return verify(target, file, normalised().signature, truth, TOLERANCE)


def weight(model: Any, change: Callable[[Any], Any], *names: str) -> None:
    """Change the one initializer that has one of the names."""
    (found,) = [tensor for tensor in model.graph.initializer if tensor.name in names]
    array = numpy_helper.to_array(found)
    found.CopyFrom(numpy_helper.from_array(np.asarray(change(array), array.dtype), found.name))


def reconnect(model: Any, old: str, new: str, kinds: set[str]) -> None:
    """Give nodes of the kinds another input."""
    for node in model.graph.node:
        if node.op_type in kinds:
            node.input[:] = [new if name == old else name for name in node.input]


def output_of(model: Any, kind: str, index: int = 0) -> str:
    """The output of the n-th node of a kind."""
    return str([node for node in model.graph.node if node.op_type == kind][index].output[0])


def before_first(model: Any, *nodes: Any) -> None:
    """Put nodes at the start, between `obs` and its readers."""
    for node in model.graph.node:
        node.input[:] = [nodes[-1].output[0] if name == "obs" else name for name in node.input]
    for index, node in enumerate(nodes):
        model.graph.node.insert(index, node)


def without_normaliser(model: Any) -> None:
    reconnect(model, last_before(model, "Gemm"), "obs", {"Gemm"})


def last_before(model: Any, kind: str) -> str:
    (first, *_) = [node for node in model.graph.node if node.op_type == kind]
    return str(first.input[0])


def without_normaliser_clip(model: Any) -> None:
    reconnect(model, last_before(model, "Gemm"), output_of(model, "Div"), {"Gemm"})


def without_action_clip(model: Any) -> None:
    clip = model.graph.node[-1]
    assert clip.op_type == "Clip"
    clip.CopyFrom(helper.make_node("Identity", [clip.input[0]], list(clip.output)))


def swapped_features(model: Any) -> None:
    order = [1, 0, *range(2, 24)]
    weight(model, lambda array: array[:, order] if array.shape[0] == 64 else array[order], "net.0.weight", "val_0")


def stale_mean(model: Any) -> None:
    weight(model, lambda array: array * 1.01, "mean")


def slightly_stale_mean(model: Any) -> None:
    weight(model, lambda array: array * 1.0005, "mean")


def wrong_epsilon(model: Any) -> None:
    weight(model, lambda array: np.sqrt(array.astype(np.float64) ** 2 - 1e-8 + 1e-2), "std")


def through_half(model: Any) -> None:
    before_first(
        model,
        helper.make_node("Cast", ["obs"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["half"], ["whole"], to=TensorProto.FLOAT),
    )


def frozen_batch(model: Any) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 24]), "fixed"))
    before_first(model, helper.make_node("Reshape", ["obs", "fixed"], ["two"]))


def dropout_in_training(model: Any) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.1, np.float32), "ratio"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([True]).reshape(()), "training"))
    before_first(model, helper.make_node("Dropout", ["obs", "ratio", "training"], ["dropped"]))


def other_output_name(model: Any) -> None:
    reconnect(model, "action", "mean_action", {"Identity"})
    model.graph.node.append(helper.make_node("Identity", ["action"], ["mean_action"]))
    model.graph.output[0].name = "mean_action"


def other_output_dtype(model: Any) -> None:
    model.graph.node[-1].output[0] = "narrow"
    model.graph.node.append(helper.make_node("Cast", ["narrow"], ["action"], to=TensorProto.DOUBLE))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE


def one_weight(model: Any) -> None:
    def change(array: Any) -> Any:
        changed = array.copy()
        changed.flat[7] += 1e-3
        return changed

    weight(model, change, "net.4.bias", "net.2.bias")


BUGS: dict[Mutate, str] = {
    without_normaliser: "mismatch",
    without_normaliser_clip: "mismatch",
    without_action_clip: "mismatch",
    swapped_features: "mismatch",
    stale_mean: "mismatch",
    slightly_stale_mean: "mismatch",
    wrong_epsilon: "mismatch",
    through_half: "mismatch",
    frozen_batch: "failed",
    dropout_in_training: "mismatch",
    other_output_name: "failed",
    other_output_dtype: "failed",
}


def test_the_right_file_passes(model: Any, truth: Reference, tmp_path: Path) -> None:
    found = check(model, truth, tmp_path)
    assert (found.status, found.message, found.rounding) == ("ok", "", 0)
    assert 0 < found.max_error < 1e-5
    assert found.observations == {"samples": 160, "scales": 256, "corners": 96}


@pytest.mark.parametrize(("bug", "status"), BUGS.items(), ids=[bug.__name__ for bug in BUGS])
def test_every_seeded_bug_is_caught(model: Any, truth: Reference, bug: Mutate, status: str, tmp_path: Path) -> None:
    wrong = copy.deepcopy(model)
    bug(wrong)
    assert wrong.SerializeToString() != model.SerializeToString()
    found = check(wrong, truth, tmp_path)
    assert found.status == status
    assert found.message
    assert (found.max_error > 1e-5) == (status == "mismatch")


class ClipsFirst(Normalised):
    """Clips the observation where its normal form should be clipped."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.clamp(self.net((torch.clamp(obs, -10.0, 10.0) - self.mean) / self.std), -1.0, 1.0)


class ScalesFirst(Normalised):
    """Divides before it subtracts."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.clamp(self.net(torch.clamp(obs / self.std - self.mean, -10.0, 10.0)), -1.0, 1.0)


class ClipsTheDecisionFirst(Normalised):
    """Clips before the last layer instead of behind it."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        normal = torch.clamp((obs - self.mean) / self.std, -10.0, 10.0)
        return self.net[4](torch.clamp(self.net[:4](normal), -1.0, 1.0)) / 8


class Squashed(nn.Module):
    """Tanh, then unscaled to bounds of -1 to 3."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(24, 6)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.net(obs)) * 2 + 1


class UnscalesFirst(Squashed):
    """The other way round."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.net(obs) * 2 + 1)


class UnscalesThenClips(Squashed):
    """The right numbers, clipped to the bounds of before."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(self.net(obs)) * 2 + 1).clamp(-1.0, 2.999)


ORDERS = [
    (Normalised, ClipsFirst, 1.0),
    (Normalised, ScalesFirst, 1.0),
    (Normalised, ClipsTheDecisionFirst, 1.0),
    (Squashed, UnscalesFirst, 3.0),
    (Squashed, UnscalesThenClips, 3.0),
]


@pytest.mark.parametrize(("right", "wrong", "high"), ORDERS, ids=[wrong.__name__ for _, wrong, _ in ORDERS])
def test_stages_in_another_order_are_caught(
    right: type[nn.Module], wrong: type[nn.Module], high: float, tmp_path: Path
) -> None:
    examples = []
    for kind in (right, wrong):
        torch.manual_seed(0)
        examples.append(Example(kind().eval(), unbounded(24), Box.uniform(-1, high, (6,))))
    file = tmp_path / "policy.onnx"
    with captured():
        target.export(examples[1].traced(), file, target.Options(), {})
    found = verify(target, file, examples[0].signature, examples[0].reference(), TOLERANCE)
    assert found.status == "mismatch"
    assert found.max_error > 1e-4


def test_a_frozen_batch_is_named(model: Any, truth: Reference, tmp_path: Path) -> None:
    wrong = copy.deepcopy(model)
    frozen_batch(wrong)
    assert "batch of 1" in check(wrong, truth, tmp_path).message


@pytest.mark.parametrize("size", [0, 100, -1])
def test_a_damaged_file_fails(model: Any, truth: Reference, size: int, tmp_path: Path) -> None:
    data = model.SerializeToString()
    file = tmp_path / "policy.onnx"
    file.write_bytes(data[:size])
    found = verify(target, file, normalised().signature, truth, TOLERANCE)
    assert found.status == "failed"
    assert "it cannot be loaded" in found.message


class Wide(nn.Module):
    """ReLU layers on raw observations: at 1000 large terms cancel, and two right runtimes differ by over 1e-5."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(24, 400), nn.Linear(400, 300), nn.Linear(300, 2)]
        self.net = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
        with torch.no_grad():
            for layer in layers:
                layer.weight *= 3

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.net(obs))


def wide() -> Example:
    torch.manual_seed(4)
    return Example(Wide().eval(), unbounded(24), Box.uniform(-1, 1, (2,)))


def test_rounding_where_large_terms_cancel_is_no_bug(tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    with captured():
        target.export(wide().traced(), file, target.Options(), {})
    found = verify(target, file, wide().signature, wide().reference(), TOLERANCE)
    assert (found.status, found.message) == ("ok", "")
    assert 0 < found.rounding < 50


def test_a_bug_is_not_taken_for_rounding_there(tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    wrong = wide()
    with torch.no_grad():
        wrong.module.get_parameter("net.4.bias")[0] += 0.001
    with captured():
        target.export(wrong.traced(), file, target.Options(), {})
    assert verify(target, file, wide().signature, wide().reference(), TOLERANCE).status == "mismatch"


class Undecided(nn.Module):
    """Three scores that are equal but for the order in which they are added up."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        one = torch.ones(24, 1)
        scores = torch.cat([obs @ one, obs.flip(1) @ one, (2 * obs) @ (0.5 * one)], dim=1)
        return scores.argmax(dim=1)


def test_ties_are_counted_not_refused(tmp_path: Path) -> None:
    example = Example(Undecided().eval(), unbounded(24), Discrete(3))
    file = tmp_path / "policy.onnx"
    with captured():
        target.export(example.traced(), file, target.Options(), {})
    found = verify(target, file, example.signature, example.reference(), TOLERANCE)
    assert (found.status, found.max_error) == ("ok", 0.0)
    assert found.ties > 0


class Logarithm(nn.Module):
    """No number for negative observations."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs.log()


def test_a_policy_without_numbers_is_refused() -> None:
    example = Example(Logarithm().eval(), Box.uniform(-1, 0, (2,)), unbounded(2))
    with pytest.raises(ExportError, match="no number for 160 of 160 samples"):
        example.reference()


def test_observations_without_an_answer_are_counted(tmp_path: Path) -> None:
    example = Example(Logarithm().eval(), Box.uniform(0, 1, (2,)), unbounded(2))
    file = tmp_path / "policy.onnx"
    with captured():
        target.export(example.traced(), file, target.Options(), {})
    found = verify(target, file, example.signature, example.reference(), TOLERANCE)
    assert found.status == "ok"
