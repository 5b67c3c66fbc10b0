"""torch.export files, read by torch alone."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlpipe.exporters.capture import captured
from tests.conformance.target_suite import TargetSuite, Written

Array = np.ndarray[Any, Any]


class TestTorchExport(TargetSuite):
    target_id = "torch_export"

    def load(self, file: Path) -> tuple[Any, dict[str, Any]]:
        extra = {"rlpipe.json": ""}
        with captured():  # torch warns about its own code
            program = torch.export.load(file, extra_files=extra)
        return program, json.loads(extra["rlpipe.json"])

    def act(self, file: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
        program, names = self.load(file)
        outputs = program.module()(*(torch.tensor(feeds[name]) for name in names["inputs"]))
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        return {name: output.numpy() for name, output in zip(names["outputs"], outputs, strict=True)}

    def essentials(self, file: Path) -> dict[str, str]:
        return dict(self.load(file)[1]["essentials"])

    def test_no_sample_inputs_and_no_traces(self, written: Written) -> None:
        program, _ = self.load(written.file)
        assert program.example_inputs is None
        with zipfile.ZipFile(written.file) as packed:
            (model,) = [packed.read(name) for name in packed.namelist() if name.endswith("models/model.json")]
        assert {str(node["metadata"]) for node in json.loads(model)["graph_module"]["graph"]["nodes"]} == {"{}"}

    def test_the_batch_is_symbolic(self, written: Written) -> None:
        program, _ = self.load(written.file)
        nodes = {node.name: node for node in program.graph.nodes}
        for name in (*program.graph_signature.user_inputs, *program.graph_signature.user_outputs):
            assert isinstance(nodes[name].meta["val"].shape[0], torch.SymInt)

    def test_no_payload_is_a_pickle(self, written: Written) -> None:
        with zipfile.ZipFile(written.file) as packed:
            configs = [json.loads(packed.read(name)) for name in packed.namelist() if name.endswith("_config.json")]
        assert [entry for config in configs for entry in config["config"].values() if entry["use_pickle"]] == []
