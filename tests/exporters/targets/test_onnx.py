"""ONNX files, read by onnx and onnxruntime alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from rlpipe.errors import ConfigError, UnsupportedModuleError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.targets import onnx as target
from rlpipe.snapshot.spaces import Box
from tests.conformance.target_suite import TargetSuite, Written
from tests.exporters.graphs import Example, greedy, unbounded

Array = np.ndarray[Any, Any]


class TestOnnx(TargetSuite):
    target_id = "onnx"

    def act(self, file: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(None, dict(feeds)), strict=True))

    def essentials(self, file: Path) -> dict[str, str]:
        return {prop.key: prop.value for prop in onnx.load(file).metadata_props}

    def test_opset_and_ir_are_the_lowest(self, written: Written) -> None:
        model = onnx.load(written.file)
        assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]
        assert model.ir_version == 8
        onnx.checker.check_model(model, full_check=True)

    def test_names_dtypes_and_the_symbolic_batch(self, written: Written) -> None:
        session = onnxruntime.InferenceSession(str(written.file), providers=["CPUExecutionProvider"])
        signature = written.example.signature
        found = [(put.name, put.shape) for put in (*session.get_inputs(), *session.get_outputs())]
        assert found == [(spec.name, ["batch", *spec.shape]) for spec in (*signature.inputs, *signature.outputs)]

    def test_weights_are_inside_and_nothing_is_drawn(self, written: Written) -> None:
        model = onnx.load(written.file, load_external_data=False)
        assert all(not tensor.external_data for tensor in model.graph.initializer)
        kinds = {node.op_type for node in model.graph.node}
        assert kinds & {"Dropout", "RandomNormal", "RandomNormalLike", "RandomUniform", "If", "Loop"} == set()
        assert all(not node.metadata_props and not node.doc_string for node in model.graph.node)


@pytest.mark.parametrize("opset", [17, 21])
def test_another_opset(opset: int, tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    with captured():
        target.export(greedy().traced(), file, target.Options(opset=opset), {})
    assert onnx.load(file).opset_import[0].version == opset
    onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def test_an_opset_that_torch_would_change_in_silence_is_refused() -> None:
    with pytest.raises(ConfigError, match="opset"):
        target.Options(opset=13)


class NoSuchOperator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(self.net(obs))


def test_an_operator_that_onnx_lacks_is_unsupported(tmp_path: Path) -> None:
    example = Example(NoSuchOperator().eval(), unbounded(4), Box.uniform(-1, 1, (4,)))
    with captured(), pytest.raises(UnsupportedModuleError, match="ONNX") as caught:
        target.export(example.traced(), tmp_path / "policy.onnx", target.Options(), {})
    assert "bessel_j0" in caught.value.found
    assert list(tmp_path.iterdir()) == []
