"""What the system says when it refuses something, in words for people."""

from __future__ import annotations

from pathlib import Path

from rlpipe.checkpoint.litter import is_litter


def reason(error: OSError) -> str:
    """Such as ``Permission denied: runs/a``: no number, and no name that rlpipe made up for a file on its way."""
    if not error.strerror:
        return str(error) or type(error).__name__
    if not isinstance(error.filename, str):
        return error.strerror
    path = Path(error.filename)
    made_up = next((each for each in (path, *path.parents) if is_litter(each)), None)
    return f"{error.strerror}: {path if made_up is None else made_up.parent}"
