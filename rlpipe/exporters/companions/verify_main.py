"""Proves the artifacts in this folder again: hashes of all files, then golden vectors through each target.

    python verify.py               every target whose runtime is installed
    python verify.py onnx c99      these, which have to run

It needs Python, numpy and the runtime of a target, and may be copied anywhere with its folder. Exit code 0: all that
was checked is as it was when it was exported. 1: it is not, or nothing could be run.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ALONE = 8
"""So many golden vectors are asked one by one too."""

NO_BOUND = 1e6
"""Bounds beyond this are none."""

NEXT = ".next"
"""`state.0.next` is what goes into `state.0` at the next step."""

LOADERS: dict[str, Any] = {}
checked: Any = None
# -- loaders --


def main(folder: Path, words: list[str]) -> int:
    """Check a folder; prints a line for each file that differs and each target."""
    record = json.loads((folder / "artifact.json").read_text(encoding="utf-8"))
    kept = {name: entry for name, entry in record["targets"].items() if entry["status"] in ("ok", "degraded")}
    bad = [f"there is no target {word}" for word in words if word not in kept]
    bad += [f"{path}: {text}" for path, text in damaged(folder, record["files"]).items()]
    proven = 0
    for name, entry in sorted(kept.items()):
        if words and name not in words:
            continue
        status, detail = verified(folder, record, name, entry)
        print(f"{name:14} {status:8} {detail}")  # noqa: T201
        proven += status == "ok"
        bad += [name] if status == "failed" or (words and status != "ok") else []
    for text in bad:
        print(f"failed: {text}", file=sys.stderr)  # noqa: T201
    return 0 if proven and not bad else 1


def verified(folder: Path, record: Any, name: str, entry: Any) -> tuple[str, str]:
    """What became of one target: "ok", "failed" or "not run", and why."""
    found = damaged(folder, entry["files"])
    if found:
        return "failed", "; ".join(f"{path} {text}" for path, text in found.items())
    if name not in LOADERS:
        return "ok", "SHA-256 of every file; it holds arrays and does not act by itself"
    try:
        step = LOADERS[name](str(folder / entry["file"]))
    except (ImportError, FileNotFoundError) as error:
        return "not run", f"its runtime is not installed: {error}"
    except Exception as error:  # noqa: BLE001 - whatever the runtime says
        return "failed", f"it cannot be loaded: {type(error).__name__}: {error}"
    return proven_by_vectors(folder, record, checked(step, record["signature"]["inputs"]), entry["options"])


def proven_by_vectors(folder: Path, record: Any, step: Any, options: Any) -> tuple[str, str]:
    """What the golden vectors say of a loaded artifact, all of those that were exported; see `verified`."""
    try:
        if problem := lacking(folder, record):
            return "failed", problem
        status, detail = replayed(folder, step, record["signature"]["outputs"], options)
        problem = "" if status == "failed" else different_json(folder)
    except (OSError, ValueError, KeyError) as error:
        return "failed", f"golden vectors that cannot be read: {type(error).__name__}: {error}"
    return ("failed", problem) if problem else (status, detail)


def lacking(folder: Path, record: Any) -> str:
    """What the golden vectors lack of those that were exported, or "": fewer would prove less."""
    with np.load(folder / "golden.npz", allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    signature, told = record["signature"], record.get("golden", {})
    inputs, outputs = ([spec["name"] for spec in signature[side]] for side in ("inputs", "outputs"))
    memory = {name[: -len(NEXT)] for name in outputs if name.endswith(NEXT)}
    due = {f"inputs/{name}": told.get("rows") for name in inputs}
    due.update({f"outputs/{name}": told.get("rows") for name in outputs})
    if memory:
        due.update({f"sequence/inputs/{name}": told.get("sequence") for name in inputs if name not in memory})
        due.update({f"sequence/outputs/{name}": told.get("sequence") for name in outputs})
    for name, expected in due.items():
        shape = list(arrays[name].shape) if name in arrays else [0]
        found = shape[:2] if name.startswith("sequence/") else shape[0]
        if 0 in np.ravel(found) or (expected is not None and found != expected):
            return f"golden.npz: {found} of {name}, not {expected or 'at least one'}"
    return ""


def different_json(folder: Path) -> str:
    """Whether golden.json says otherwise than golden.npz, of which it holds the first rows: what, or ""."""
    told = json.loads((folder / "golden.json").read_text(encoding="utf-8"))
    with np.load(folder / "golden.npz", allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for key, array in arrays.items():
        of_run = key.startswith("sequence/")
        side, _, name = key.removeprefix("sequence/").partition("/")
        part = told["sequence"] if of_run else told
        count = part["steps" if of_run else "count"]
        first = array[:count, 0] if of_run else array[:count]
        if count < 1 or part[side].get(name) != first.tolist():
            return f"golden.json: {key} is not as in golden.npz"
    return ""


def replayed(folder: Path, step: Any, specs: Any, options: Any) -> tuple[str, str]:
    """Golden vectors through a loaded artifact, all at once and one by one; then steps that carry its own memory."""
    with np.load(folder / "golden.npz", allow_pickle=False) as archive:
        inputs, outputs, run_inputs, run_outputs = (
            {name[len(side) :]: archive[name] for name in archive.files if name.startswith(side)}
            for side in ("inputs/", "outputs/", "sequence/inputs/", "sequence/outputs/")
        )
    reach = {spec["name"]: largest_of(spec) for spec in specs}
    scale = {name: scale_of(reach[name], array) for name, array in outputs.items()}
    count = len(next(iter(inputs.values())))
    spans = [slice(0, count), *(slice(row, row + 1) for row in range(min(ALONE, count)))]
    largest = 0.0
    for span in spans:
        try:
            found = step({name: array[span] for name, array in inputs.items()})
        except Exception as error:  # noqa: BLE001 - whatever the runtime says
            return "failed", f"{type(error).__name__}: {error}"
        expected = {name: array[span] for name, array in outputs.items()}
        difference, problem = differing(expected, found, options, scale, reach)
        largest = max(largest, difference)
        if problem:
            return "failed", problem
    if not run_inputs:
        return "ok", f"{count} golden vectors, largest difference {largest:.1e}"
    difference, problem = carried(step, list(inputs), (run_inputs, run_outputs), options, (scale, reach))
    if problem:
        return "failed", problem
    steps, rows = next(iter(run_inputs.values())).shape[:2]
    text = f"{count} golden vectors and {steps} steps of {rows} with its own memory"
    return "ok", f"{text}, largest difference {max(largest, difference):.1e}"


def carried(step: Any, order: list[str], run: Any, options: Any, limits: Any) -> tuple[float, str]:
    """Steps in a row, each with the memory that the one before gave, from zeros on: difference, and problem or ""."""
    inputs, outputs = run
    memory = {name[: -len(NEXT)]: name for name in outputs if name.endswith(NEXT)}
    state = {name: np.zeros_like(outputs[after][0]) for name, after in memory.items()}
    largest = 0.0
    for at in range(len(next(iter(inputs.values())))):
        feeds = {**{name: array[at] for name, array in inputs.items()}, **state}
        try:
            found = step({name: feeds[name] for name in order})
        except Exception as error:  # noqa: BLE001 - whatever the runtime says
            return largest, f"step {at + 1}: {type(error).__name__}: {error}"
        difference, problem = differing({name: array[at] for name, array in outputs.items()}, found, options, *limits)
        largest = max(largest, difference)
        if problem:
            return largest, f"step {at + 1} with its own memory: {problem}"
        state = {name: np.asarray(found[after]) for name, after in memory.items()}
    return largest, ""


def differing(expected: Any, found: Any, options: Any, scale: Any, reach: Any) -> tuple[float, str]:
    """Largest difference of any output, and what is wrong with the first that differs, or "".

    Where no bound says how large an output may be, differences are told in units of its size, but at least of 1.
    """
    largest, text = 0.0, ""
    for name, array in expected.items():
        other = np.asarray(found[name]) if name in found else np.zeros(0)
        if other.shape != array.shape or other.dtype != array.dtype:
            return float("inf"), f"{name}: {other.dtype} {list(other.shape)}, not {array.dtype} {list(array.shape)}"
        real = array.astype(np.float64)
        error = np.abs(real - other.astype(np.float64))
        near = error <= allowed(array, options, scale[name])
        error /= np.where(reach[name] < NO_BOUND, 1.0, np.maximum(1.0, np.abs(real)))
        largest = max(largest, float(np.max(error, initial=0.0)))
        if not near.all() and not text:
            rows = int((~near).reshape(len(near), -1).any(axis=1).sum())
            text = f"{name}: {rows} of {len(near)} golden vectors differ, by up to {float(np.max(error)):.1e}"
    return largest, text


def largest_of(spec: Any) -> Any:
    """The largest magnitude within the bounds of an output, inf where there is none."""
    shape = tuple(spec["shape"][1:])
    bounds = [np.array(spec[side], np.float64) for side in ("low", "high")]
    whole = [bound.reshape(shape) if bound.ndim else np.full(shape, bound) for bound in bounds]
    low, high = (np.where(np.isnan(bound), np.inf, np.abs(bound)) for bound in whole)
    return np.maximum(low, high)


def scale_of(reach: Any, array: Any) -> Any:
    """How large each element of an output is where bounds say that large ones are normal, at least 1; else 1."""
    largest = np.abs(array.astype(np.float64)).max(axis=0, initial=1)
    return np.where(reach < NO_BOUND, np.clip(largest, 1, np.maximum(reach, 1)), 1.0)


def allowed(array: Any, options: Any, scale: Any) -> Any:
    """What each number may differ by: nothing for whole numbers, a unit in the last place more for narrow types."""
    if array.dtype.kind != "f":
        return np.zeros(array.shape)
    coarse = float(np.finfo(array.dtype).eps) if array.dtype.itemsize < 4 else 0.0
    return options["atol"] * scale + (options["rtol"] + coarse) * np.abs(array.astype(np.float64))


def damaged(folder: Path, files: Any) -> dict[str, str]:
    """Path -> what is wrong, of the files that are not the ones that were exported."""
    found = {}
    for file in files:
        path = folder / file["path"]
        if not path.is_file():
            found[file["path"]] = "is missing"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
            found[file["path"]] = "was changed or damaged"
    return found


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent, sys.argv[1:]))
