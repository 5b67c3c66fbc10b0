"""Prepared states into live components: one state for each of them, and all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from rlpipe.checkpoint.filling import Filling
from rlpipe.errors import TieError, listed
from rlpipe.snapshot.state import State, copied, entries, equal

_SPARED = 2**28
"""Bytes of arrays in place that are copied, so that they can be put back if another component of the tree refuses."""


def one_each(pending: Sequence[Filling], paths: Sequence[str]) -> list[Filling]:
    """Of several states for one component, which stands in several places of a tree, the first; they have to be equal.

    Args:
        pending: The states.
        paths: Where each goes.

    Raises:
        TieError: A component would get two different states.
    """
    found: dict[int, tuple[Filling, str]] = {}
    wrong = []
    for each, path in zip(pending, paths, strict=True):
        first, place = found.setdefault(id(each.target.stands_for()), (each, path))
        if key := _difference(first.state, each.state):
            wrong.append(f"{place} and {path} ({key} differs)")
    if wrong:
        raise TieError(
            "one component would get two states",
            expected="the same state in all places where it stands",
            found=listed(wrong),
            fix="give all places the same state, or leave out all but one",
        )
    return [each for each, _ in found.values()]


def _difference(one: State, other: State) -> str:
    """The first key of what differs; "" if nothing does."""
    if one is other or equal(one, other):
        return ""
    ours, theirs = entries(one), entries(other)
    return next((key for key in ours if not equal(ours[key], theirs.get(key))), "keys")


def replace_states(pending: Sequence[Filling], finish: Callable[[], None], undo: Callable[[], None]) -> None:
    """Give live components their states; if one refuses, all get back what they had.

    Those that are written to in place come last: by then hardly anything can fail.

    Args:
        pending: The states, one for each component.
        finish: What is done when all have theirs.
        undo: What is done when all have theirs of before again, because something failed.
    """
    backs: list[Callable[[], None]] = []
    left = _SPARED if len(pending) > 1 else 0
    try:
        for each in sorted(pending, key=lambda each: bool(each.target.get_own_memory())):
            size = sum(array.nbytes for array in each.target.get_own_memory().values())
            if size <= left:
                left -= size
                backs.append(partial(each.target.set_own_state, copied(each.target.get_own_state())))
            each.target.set_own_state(each.filled())
        finish()
    except BaseException:
        for back in (*reversed(backs), undo):
            with suppress(Exception):  # what went wrong first is what is told
                back()
        raise
