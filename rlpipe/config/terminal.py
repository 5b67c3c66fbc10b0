"""What a run says on the streams of its process, and the exit code of an error."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable

from rlpipe.config.findings import LOOK
from rlpipe.errors import ConfigError, RlpipeError

INTERRUPTED = 130
TRACEBACKS = "HYDRA_FULL_ERROR"
_REFUSALS = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ELOOP, errno.EMFILE, errno.ENAMETOOLONG, errno.ENOSPC}
    | {errno.EPERM, errno.EROFS, errno.ESTALE}
)


def never_fail_to_print() -> None:
    """A name that the terminal's encoding lacks is shown escaped."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def tell(error: BaseException, *, tracebacks: bool) -> int:
    """Say on stderr what went wrong: rlpipe's own errors as a block, anything else with its traceback."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    is_known = isinstance(error, RlpipeError)
    if not is_known or tracebacks:
        traceback.print_exception(error)
    if is_known:
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)  # noqa: T201
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
    if isinstance(error, ConfigError) and error.fix == error.usual_fix:
        print(f"  keys: {LOOK}", file=sys.stderr)  # noqa: T201
    return error.exit_code if isinstance(error, RlpipeError) else 1


def refused(error: OSError) -> BaseException:
    """An error of rlpipe's where the system refused something, which is no fault of the code; else the same."""
    from rlpipe.checkpoint.refusals import reason

    if isinstance(error, RlpipeError) or error.errno not in _REFUSALS:
        return error
    expected, fix = "a file that may be read or written", "see to its permissions, and to the room on its disk"
    known = RlpipeError("the system refuses a file", expected=expected, found=reason(error), fix=fix)
    known.__cause__ = error
    return known


def wants_tracebacks() -> bool:
    """Whether the user asked for tracebacks, in Hydra's way."""
    return os.environ.get(TRACEBACKS) == "1"


def delivered(write: Callable[[], object]) -> bool:
    """Whether stdout took all that it wanted: a reader that stops listening is no failure."""
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        _discard_stdout()
        print(f"error: the result cannot be printed: {error.strerror}", file=sys.stderr)  # noqa: T201
        return False
    return True


def _discard_stdout() -> None:
    """What is still in the buffer must not fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
