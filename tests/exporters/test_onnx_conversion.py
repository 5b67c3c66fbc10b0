"""A model that is converted once for several policies is the one that each would have got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from rlpipe.exporters import onnx_conversion
from rlpipe.exporters.capture import captured
from rlpipe.exporters.graph import ExportGraph
from rlpipe.exporters.onnx_conversion import converted
from tests.exporters.graphs import Example, normalised, unbounded
from tests.exporters.steps import STEPS


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_conversion, "_templates", type(onnx_conversion._templates)())


class Scaled(nn.Module):
    def __init__(self, factor: float, width: int = 3) -> None:
        super().__init__()
        self.factor, self.net = factor, nn.Linear(4, width)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.factor * self.net(obs)


def scaled(seed: int, factor: float = 2.0, width: int = 3) -> ExportGraph:
    torch.manual_seed(seed)
    with captured():
        return Example(Scaled(factor, width).eval(), unbounded(4), unbounded(width)).traced()


def other(name: str, seed: int) -> ExportGraph:
    """The same policy with other weights."""
    example: Any = STEPS[name]() if name in STEPS else normalised()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad(), captured():
        for parameter in example.module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        return example.traced()


def data(graph: ExportGraph, opset: int = 18) -> bytes:
    with captured():
        return bytes(converted(graph, opset).SerializeToString(deterministic=True))


@pytest.mark.parametrize("name", ["normalised", "remembers", "gated", "branches", "picks"])
def test_the_second_is_what_it_would_have_been_as_the_first(name: str) -> None:
    first, second = (other(name, seed) for seed in (1, 2))
    alone = data(second)
    onnx_conversion._templates.clear()
    assert data(first) != alone
    assert len(onnx_conversion._templates) == 1
    assert data(second) == alone
    assert len(onnx_conversion._templates) == 1


def test_it_acts_like_its_own_policy() -> None:
    graphs = [scaled(seed) for seed in range(3)]
    feeds = {"obs": np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)}
    for graph in graphs:
        with torch.no_grad():
            expected = graph.module(torch.tensor(feeds["obs"])).numpy()
        (found,) = onnxruntime.InferenceSession(data(graph)).run(None, feeds)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(onnx_conversion._templates) == 1


def test_other_numbers_in_the_code_widths_and_opsets_are_other_policies() -> None:
    for graph, opset in ((scaled(0), 18), (scaled(0, factor=3.0), 18), (scaled(0, width=2), 18), (scaled(0), 20)):
        data(graph, opset)
    assert len(onnx_conversion._templates) == 4


def test_no_more_than_a_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_conversion, "_KEPT", 2)
    for factor in (1.5, 2.5, 3.5):
        data(scaled(0, factor))
    assert len(onnx_conversion._templates) == 2


def test_large_ones_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_conversion, "_LARGEST", 10)
    data(scaled(0))
    assert len(onnx_conversion._templates) == 0


def test_without_torchs_table_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = data(scaled(0))
    onnx_conversion._templates.clear()
    monkeypatch.setattr(onnx_conversion, "_registry", lambda _: None)
    assert data(scaled(0)) == expected


def test_weights_that_are_cut_and_joined_are_plain_initializers(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(data(other("remembers", 0)))
    made = {name for node in model.graph.node for name in node.output}
    (lstm, _) = [node for node in model.graph.node if node.op_type == "LSTM"]
    assert not set(lstm.input[1:4]) & made
