"""The check of inputs that goes before every artifact. Its source text stands in the scripts beside an artifact."""

from __future__ import annotations

from typing import Any


def checked(step: Any, inputs: Any) -> Any:
    """A loaded artifact that refuses what it does not take, with the tensor, what was expected and what came.

    Args:
        step: What a target's `load` gives.
        inputs: The inputs of the signature in `artifact.json`.

    Returns:
        The same with a ValueError for wrong names, dtypes, shapes and batch sizes, for NaN, and for
        uniform noise that is not between 0 and 1; nothing is cast. A mask that allows nothing is taken: it counts as
        one that allows everything.
    """
    import numpy as np

    def problem(spec: Any, array: Any) -> str:
        name, dtype, shape = spec["name"], spec["dtype"], tuple(spec["shape"][1:])
        expected = f"{name}: expected {dtype} {['batch', *shape]}"
        if not isinstance(array, np.ndarray):
            return f"{expected}, got {type(array).__name__}"
        if array.dtype != dtype or array.ndim != len(shape) + 1 or array.shape[1:] != shape:
            return f"{expected}, got {array.dtype} {list(array.shape)}"
        if array.dtype.kind == "f" and bool(np.isnan(array).any()):
            return f"{name}: NaN"
        if spec.get("distribution") == "uniform" and bool(((array < 0) | (array > 1)).any()):
            return f"{name}: expected numbers between 0 and 1, got {array.min()} to {array.max()}"
        return ""

    def call(arrays: Any) -> Any:
        names = [spec["name"] for spec in inputs]
        problems = [f"{name}: missing" for name in names if name not in arrays]
        problems += [f"{name}: there is no such input" for name in arrays if name not in names]
        found = [problem(spec, arrays[spec["name"]]) for spec in inputs if spec["name"] in arrays]
        problems += [text for text in found if text]
        if not problems and len({len(arrays[name]) for name in names}) > 1:
            problems = [f"batch sizes differ: {[len(arrays[name]) for name in names]}"]
        if problems:
            raise ValueError("; ".join(problems))
        return step({name: np.ascontiguousarray(arrays[name]) for name in names})

    return call
