"""TorchScript files, read by torch alone."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.exporters.capture import captured
from tests.conformance.target_suite import TargetSuite, Written

Array = np.ndarray[Any, Any]


class TestTorchscript(TargetSuite):
    target_id = "torchscript"

    def load(self, file: Path) -> tuple[Any, dict[str, Any]]:
        extra = {"rlpipe.json": ""}
        with captured():  # torch deprecates it
            module = torch.jit.load(file, _extra_files=extra)  # type: ignore[no-untyped-call]
        return module, json.loads(extra["rlpipe.json"])

    def act(self, file: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
        module, names = self.load(file)
        outputs = module(*(torch.tensor(feeds[name]) for name in names["inputs"]))
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        return {name: output.numpy() for name, output in zip(names["outputs"], outputs, strict=True)}

    def essentials(self, file: Path) -> dict[str, str]:
        return dict(self.load(file)[1]["essentials"])

    @pytest.mark.skip(reason="torch numbers the classes of a process, so the second trace in one has other bytes")
    def test_a_fresh_process_writes_the_same_bytes(self, one: Written, tmp_path: Path) -> None:
        """Not promised for this format."""

    def test_no_source_lines_are_inside(self, written: Written) -> None:
        with zipfile.ZipFile(written.file) as packed:
            assert [name for name in packed.namelist() if name.endswith(".debug_pkl")] == []

    def test_it_is_marked_as_legacy(self) -> None:
        assert "deprecated" in self.target.LEGACY  # type: ignore[attr-defined]

    def test_its_loader_is_silent(self, one: Written) -> None:
        """Warnings are errors here."""
        self.target.load(str(one.file))
