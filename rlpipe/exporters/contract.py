"""What an artifact must refuse: inputs that are almost right, each of which some runtime answers in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rlpipe.exporters.levels import CONTRACT, Level
from rlpipe.exporters.signature import Array, Signature, TensorSpec
from rlpipe.exporters.target import Arrays

_ROWS = 3
_MOST_INPUTS = 8
"""Of more observations and of more states the first so many are tried."""

_SAME = "answers as if "
_ANYTHING = 1e30

_OTHER_DTYPES = {"float32": "float64", "float64": "float32", "int64": "int32", "int32": "int64"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Declared:
    """Inputs that are taken though they look wrong.

    Attributes:
        outcome: What they lead to, such as "answers as if every choice were allowed".
        feeds: Input name -> array.
        like: What has to lead to the same.
    """

    outcome: str
    feeds: Arrays
    like: Arrays


def wrong_feeds(signature: Signature, feeds: Arrays) -> dict[str, Arrays]:
    """Name of a case -> feeds that do not fit the signature.

    Args:
        signature: What the artifact takes.
        feeds: Input name -> observations, at least 3.
    """
    right = {name: array[:_ROWS] for name, array in feeds.items()}
    cases: dict[str, Arrays] = {}
    for spec in _tried(signature):
        for case, array in _wrong(spec, right[spec.name]):
            cases[f"{case} of {spec.name}"] = {**right, spec.name: array}
        cases[f"missing {spec.name}"] = {name: array for name, array in right.items() if name != spec.name}
    for spec in signature.inputs[1:2]:
        cases[f"another batch of {spec.name}"] = {**right, spec.name: right[spec.name][:-1]}
    cases["an extra input"] = {**right, "extra": np.zeros((_ROWS, 1), np.float32)}
    return cases


def declared_feeds(signature: Signature, feeds: Arrays) -> dict[str, Declared]:
    """Name of a case -> inputs whose outcome is declared: masks that allow nothing, memory that is put back anyway."""
    right = {name: array[:_ROWS] for name, array in feeds.items()}
    cases: dict[str, Declared] = {}
    for mask in signature.of_kind("action_mask"):
        everything = {**right, mask.name: np.ones_like(right[mask.name])}
        nothing = {**right, mask.name: np.zeros_like(right[mask.name])}
        outcome = f"{_SAME}every choice were allowed"
        cases["no choice allowed"] = Declared(outcome=outcome, feeds=nothing, like=everything)
    for start in signature.of_kind("episode_start"):
        begun = {**right, start.name: np.ones_like(right[start.name])}
        states = {spec.name: right[spec.name] for spec in signature.of_kind("state")}
        fresh = {**begun, **{name: np.zeros_like(array) for name, array in states.items()}}
        filled = {**begun, **{name: _anything(array) for name, array in states.items()}}
        outcome = f"{_SAME}it were zeros"
        cases["any memory at an episode start"] = Declared(outcome=outcome, feeds=filled, like=fresh)
    return cases


def _anything(array: Array) -> Array:
    return np.full_like(array, _ANYTHING if array.dtype.kind == "f" and array.dtype.itemsize > 2 else 1)


def _tried(signature: Signature) -> Iterator[TensorSpec]:
    observations, states = (signature.of_kind(kind)[:_MOST_INPUTS] for kind in ("observation", "state"))
    yield from observations
    yield from states
    yield from signature.of_kind("episode_start", "action_mask", "noise")


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
        yield "NaN", _with(array, np.nan)
    if spec.distribution == "uniform":
        yield "range", _with(array, 1.5)


def _with(array: Array, value: float) -> Array:
    """With a number at the start of each row."""
    changed = array.copy()
    changed.reshape(len(changed), -1)[:, 0] = value
    return changed


def judge(outcomes: Mapping[str, Mapping[str, str]], died: str) -> Level:
    """The level of proof: the checked artifact refuses all, or does what is declared; what the bare file does is told.

    Args:
        outcomes: Name of a case -> what the file itself and what the checked file did.
        died: What ended the process before it had tried all, or "".
    """
    facts = {name: dict(found) for name, found in outcomes.items()}
    answered = [name for name, found in outcomes.items() if not found["checked"].startswith(("refuses", _SAME))]
    bare = [name for name, found in outcomes.items() if not found["file"].startswith(("refuses", _SAME))]
    declared = [f"{name}: {found['checked']}" for name, found in outcomes.items() if found["checked"].startswith(_SAME)]
    if died or answered:
        detail = f"a wrong input ends the process: {died}" if died else f"it answers {', '.join(answered)}"
        return Level(name=CONTRACT, status="failed", detail=detail, facts=facts)
    rest = f"; without the check the file answers {', '.join(bare)}" if bare else ""
    refused = f"{len(outcomes) - len(declared)} wrong inputs refused"
    return Level(name=CONTRACT, status="ok", detail="; ".join([f"{refused}{rest}", *declared]), facts=facts)
