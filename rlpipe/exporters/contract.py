"""What an artifact must refuse: inputs that are almost right, each of which some runtime answers in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from rlpipe.exporters.levels import CONTRACT, Level
from rlpipe.exporters.signature import Array, Signature, TensorSpec
from rlpipe.exporters.target import Arrays

_ROWS = 3
_MOST_INPUTS = 8
"""Of more inputs the first so many are tried."""

_OTHER_DTYPES = {"float32": "float64", "float64": "float32", "int64": "int32", "int32": "int64"}


def wrong_feeds(signature: Signature, feeds: Arrays) -> dict[str, Arrays]:
    """Name of a case -> feeds that do not fit the signature.

    Args:
        signature: What the artifact takes.
        feeds: Input name -> observations, at least 3.
    """
    right = {name: array[:_ROWS] for name, array in feeds.items()}
    cases: dict[str, Arrays] = {}
    for spec in signature.inputs[:_MOST_INPUTS]:
        for case, array in _wrong(spec, right[spec.name]):
            cases[f"{case} of {spec.name}"] = {**right, spec.name: array}
        cases[f"missing {spec.name}"] = {name: array for name, array in right.items() if name != spec.name}
    cases["an extra input"] = {**right, "extra": np.zeros((_ROWS, 1), np.float32)}
    return cases


def _wrong(spec: TensorSpec, array: Array) -> Iterator[tuple[str, Array]]:
    yield "dtype", array.astype(_OTHER_DTYPES.get(spec.dtype, "float32"))
    yield "rank", array[0]
    if spec.shape:
        yield "width", array[..., :-1]
    if len(spec.shape) == 1 and array.T.shape != array.shape:
        yield "transposed", array.T
    if len(spec.shape) == 3 and (other := np.moveaxis(array, -1, 1)).shape != array.shape:
        yield "layout", other
    if array.dtype.kind == "f":
        holed = array.copy()
        holed.reshape(len(holed), -1)[:, 0] = np.nan
        yield "NaN", holed


def judge(outcomes: Mapping[str, Mapping[str, str]], died: str) -> Level:
    """The level of proof: the checked artifact refuses everything; what the bare file does is declared.

    Args:
        outcomes: Name of a case -> what the file itself and what the checked file did.
        died: What ended the process before it had tried all, or "".
    """
    facts = {name: dict(found) for name, found in outcomes.items()}
    answered = [name for name, found in outcomes.items() if not found["checked"].startswith("refuses")]
    bare = [name for name, found in outcomes.items() if not found["file"].startswith("refuses")]
    if died or answered:
        detail = f"a wrong input ends the process: {died}" if died else f"it answers {', '.join(answered)}"
        return Level(name=CONTRACT, status="failed", detail=detail, facts=facts)
    rest = f"; without the check the file answers {', '.join(bare)}" if bare else ""
    return Level(name=CONTRACT, status="ok", detail=f"{len(outcomes)} wrong inputs refused{rest}", facts=facts)
