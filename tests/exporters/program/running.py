"""Runs programs as numpy and as C, and keeps what is slow to make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.exporters.capture import captured
from rlpipe.exporters.graph import ExportGraph
from rlpipe.exporters.target import resolve
from tests.exporters.graphs import Example
from tests.exporters.program.networks import NETWORKS

Array = np.ndarray[Any, Any]
Step = Callable[[Mapping[str, Array]], Mapping[str, Array]]


@cache
def example(name: str) -> Example:
    return NETWORKS[name]()


@cache
def traced(name: str) -> ExportGraph:
    with captured():
        return example(name).traced()


@cache
def truth(name: str) -> tuple[dict[str, Array], dict[str, Array]]:
    """Observations and what torch answers; where sums of huge numbers cancel, only moderate ones."""
    reference = example(name).reference()
    rows = reference.observations.groups["samples"] if name in ("sums", "recurrent") else len(reference.observations)
    given = {key: array[:rows] for key, array in reference.observations.arrays.items()}
    return given, {key: array[:rows] for key, array in reference.actions.items()}


def written(graph: ExportGraph, target_id: str, folder: Path) -> Path:
    """The file of a target in a folder."""
    target = resolve(target_id)
    file = folder / target.FILE_NAME
    with captured():
        target.export(graph, file, target.Options(), {"rlpipe.fingerprint": "0123456789ab"})
    return file


def loaded(graph: ExportGraph, target_id: str, folder: Path) -> Step:
    return resolve(target_id).load(str(written(graph, target_id, folder)))


def require_same(found: Mapping[str, Array], truth: Mapping[str, Array]) -> None:
    """Equal up to rounding, and NaN and infinities where the policy has them."""
    assert list(found) == list(truth)
    for name, array in truth.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_allclose(found[name], array, atol=1e-5, rtol=1e-4, equal_nan=True)
