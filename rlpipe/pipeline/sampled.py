"""Errors of a run that took the packaged sample as its source say so, as its report would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SAMPLE_MARK = "SAMPLE"
SAMPLE_LINE = f"{SAMPLE_MARK}: the packaged sample checkpoint (none was named and none found)"
_IS_TAKEN: ContextVar[bool] = ContextVar("_IS_TAKEN", default=False)


def sample_is_taken() -> None:
    """Remember that the run took the sample."""
    _IS_TAKEN.set(True)


@contextmanager
def sample_in_errors() -> Iterator[None]:
    """An error that leaves the block carries `SAMPLE_LINE` as a note, if the sample was taken inside."""
    token = _IS_TAKEN.set(False)
    try:
        yield
    except Exception as error:
        if _IS_TAKEN.get() and not is_of_sample(error):
            error.add_note(SAMPLE_LINE)
        raise
    finally:
        _IS_TAKEN.reset(token)


def is_of_sample(error: BaseException) -> bool:
    """Whether the error carries the note."""
    return SAMPLE_LINE in getattr(error, "__notes__", ())
