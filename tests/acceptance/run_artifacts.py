"""Runs exported files without rlpipe: python run_artifacts.py FEEDS.npz RESULTS.npz FILE...

FEEDS holds one array per batch size. RESULTS gets `<file index>/<feed name>` per file and feed, and nothing in this
process may import rlpipe.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def run_onnx(path: Path, feeds: dict[str, Array]) -> dict[str, Array]:
    """Actions of an ONNX file with one input and one output."""
    import onnx
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (given,), (made,) = session.get_inputs(), session.get_outputs()
    assert isinstance(given.shape[0], str), f"the batch is fixed at {given.shape[0]}"
    model = onnx.load(str(path), load_external_data=False)
    assert [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")] == [18]
    assert all(not tensor.external_data for tensor in model.graph.initializer)
    return {name: session.run([made.name], {given.name: feed})[0] for name, feed in feeds.items()}


def run_torch_export(path: Path, feeds: dict[str, Array]) -> dict[str, Array]:
    """Actions of a torch.export file with one input and one output."""
    import torch

    program = torch.export.load(str(path)).module()

    def act(feed: Array) -> Array:
        made = program(torch.from_numpy(feed))
        made = next(iter(made.values())) if isinstance(made, dict) else made
        made = made[0] if isinstance(made, (tuple, list)) else made
        return np.asarray(made.detach().numpy())

    return {name: act(feed) for name, feed in feeds.items()}


def main(feeds_path: str, results_path: str, *paths: str) -> None:
    """Runs every file on every feed."""
    sys.modules["rlpipe"] = None  # type: ignore[assignment]
    warnings.simplefilter("ignore")
    with np.load(feeds_path) as stored:
        feeds = {name: stored[name] for name in stored.files}
    results: dict[str, Array] = {}
    for index, path in enumerate(map(Path, paths)):
        run = run_onnx if path.suffix == ".onnx" else run_torch_export
        results |= {f"{index}/{name}": made for name, made in run(path, feeds).items()}
    np.savez(results_path, allow_pickle=False, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
