"""Interrupting a save at each call to the system. Run as a program it kills processes that it forks.

Forking is only safe in a process without other threads, which a test run may not be.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rlpipe.checkpoint import directory
from rlpipe.checkpoint.directory import IfExists, list_checkpoints, locate
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from tests.checkpoint.components import policy, tree

CALLS = ("mkdir", "write", "fsync", "rename")


@contextmanager
def interposed(before: Callable[[str], None]) -> Iterator[None]:
    """Call `before` ahead of each call to the system that a save makes, the exchange of directories included."""
    patch = pytest.MonkeyPatch()

    def wrap(name: str, real: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            before(name)
            return real(*arguments, **more)

        return call

    for name in CALLS:
        patch.setattr(os, name, wrap(name, getattr(os, name)))
    patch.setattr(directory, "_exchange", wrap("exchange", directory._exchange))
    try:
        yield
    finally:
        patch.undo()


def save(path: Path, seed: int, if_exists: IfExists) -> None:
    write_checkpoint(tree(1) if seed else policy(0), path, if_exists=if_exists)


def count_calls(path: Path, if_exists: IfExists) -> int:
    calls: list[str] = []
    with interposed(calls.append):
        save(path, 1, if_exists)
    return len(calls)


def require_old_or_new(parent: Path, *, had_old: bool) -> None:
    """What every reader and the next writer must find, whenever a save ended."""
    path = parent / "ckpt"
    assert list_checkpoints(parent) in ([path], [])
    assert locate(path).exists() or not had_old
    if locate(path).exists():
        assert verify_checkpoint(path).ok
        found = read_checkpoint(path)
        assert found.state.get("steps") == 0 or found.children
    save(path, 1, "replace")
    assert verify_checkpoint(path).ok
    assert list_checkpoints(parent) == [path]


class Attempts:
    """Places where a save can be tried again and again, with an old checkpoint there or not."""

    def __init__(self, directory: Path, *, had_old: bool) -> None:
        self.directory, self.had_old = directory, had_old
        if had_old:
            save(directory / "old" / "ckpt", 0, "error")
        self.calls = count_calls(self.place("trial") / "ckpt", "replace")
        assert self.calls > 10

    def place(self, name: str) -> Path:
        place = self.directory / name
        if self.had_old:
            shutil.copytree(self.directory / "old", place)
        else:
            place.mkdir()
        return place


def kill_everywhere(attempts: Attempts) -> None:
    """Kill a save at each of its calls, and look at what it leaves."""
    for killed in range(attempts.calls):
        parent = attempts.place(f"try{killed}")
        seen = iter(range(attempts.calls + 10))

        def before(_name: str, killed: int = killed, seen: Iterator[int] = seen) -> None:
            if next(seen) == killed:
                os.kill(os.getpid(), 9)

        child = os.fork()
        if child == 0:
            with interposed(before):
                save(parent / "ckpt", 1, "replace")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 9
        require_old_or_new(parent, had_old=attempts.had_old)


if __name__ == "__main__":
    where, old, way = sys.argv[1:]
    if way == "two renames":
        directory._renameat2 = lambda: None  # type: ignore[assignment]
    kill_everywhere(Attempts(Path(where), had_old=old == "replacing"))
