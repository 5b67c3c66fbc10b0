"""A program that does things to folders of checkpoints, and fails or kills each of their calls to the system.

    python -m tests.checkpoint.faults both|kills <scenario> <empty directory> <seed> <at most so many kills>

It replaces functions of `os` and of libc in its own process, which is why it is a program: nothing of rlpipe is
replaced, and it has one thread, so that it can fork. An audit hook proves that no file is opened for writing, and no
name made or removed, by other ways than these functions.
"""

from __future__ import annotations

import ctypes
import errno
import io
import json
import os
import random
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from rlpipe.checkpoint.choose import survey
from rlpipe.checkpoint.directory import list_checkpoints
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.errors import CheckpointError
from tests.checkpoint.scenarios import SCENARIOS, Contents, Scenario, contents_of

Act: TypeAlias = Callable[[str, Any, tuple[Any, ...], dict[str, Any]], Any]
"""What happens in place of a call: its name, its function, and what it is called with."""

CALLS = (
    *("open", "write", "writev", "pwrite", "pwritev", "truncate", "ftruncate", "posix_fallocate", "sendfile"),
    *("copy_file_range", "fsync", "fdatasync", "mkdir", "link", "symlink", "rename", "replace", "unlink", "remove"),
    *("rmdir", "utime", "chmod"),
)
LIBC = ("renameat2", "sync_file_range")
ERRORS = (errno.ENOSPC, errno.EIO)
REMOVALS = ("unlink", "remove", "rmdir")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_NAMES = (
    "os.mkdir",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.remove",
    "os.rmdir",
    "os.truncate",
    "os.chmod",
    "os.utime",
)


def fails(number: int) -> Act:
    """The call does nothing and fails."""

    def act(name: str, *_: Any) -> Any:
        raise OSError(number, f"no luck with {name}")

    return act


class _Here(threading.local):
    """Whether this thread is in a call that is counted."""

    is_inside = False


class Fault:
    """What happens at which call.

    Attributes:
        at: Number of the call, from 0; None for none.
        act: What happens in its place.
        seen: Names of the calls so far; None while nothing is counted.
    """

    def __init__(self) -> None:
        self.at: int | None = None
        self.act: Act = fails(0)
        self.seen: list[str] | None = None
        self.here = _Here()
        self.lock = threading.Lock()

    def call(self, name: str, function: Any, arguments: tuple[Any, ...], more: dict[str, Any]) -> Any:
        if self.seen is None or self.here.is_inside:
            return function(*arguments, **more)
        with self.lock:
            self.seen.append(name)
            is_hit = len(self.seen) - 1 == self.at
        self.here.is_inside = True
        try:
            return self.act(name, function, arguments, more) if is_hit else function(*arguments, **more)
        finally:
            self.here.is_inside = False

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Fail on a change to the disk that `call` knows nothing of."""
        if self.seen is None or self.here.is_inside:
            return
        is_open = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        if is_open or event in _NAMES:
            os.write(2, f"unseen: {event} {arguments}\n".encode())
            os._exit(3)

    @contextmanager
    def armed(self, at: int | None, act: Act) -> Iterator[list[str]]:
        self.at, self.act, self.seen = at, act, []
        try:
            yield self.seen
        finally:
            self.seen = None


FAULT = Fault()


def install(*, can_exchange: bool) -> None:
    """Replace the functions; for good, in this process."""
    for name in CALLS:
        setattr(os, name, _wrapped(name, getattr(os, name)))
    io.open = _wrapped_open(io.open)
    real = ctypes.CDLL.__getattr__

    def look_up(library: ctypes.CDLL, name: str) -> Any:
        function = real(library, name)
        return _LibraryCall(name, function, is_there=can_exchange or name != "renameat2") if name in LIBC else function

    ctypes.CDLL.__getattr__ = look_up  # type: ignore[method-assign]
    sys.addaudithook(FAULT.audit)


def _wrapped(name: str, function: Any) -> Any:
    def call(*arguments: Any, **more: Any) -> Any:
        if name == "open" and not arguments[1] & _WRITING:
            return function(*arguments, **more)
        return FAULT.call(name, function, arguments, more)

    return call


def _wrapped_open(function: Any) -> Any:
    def call(file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        if set("wax+").isdisjoint(mode):
            return function(file, mode, *arguments, **more)
        return FAULT.call("open", function, (file, mode, *arguments), more)

    return call


class _LibraryCall:
    """A function of libc that sets errno."""

    def __init__(self, name: str, function: Any, *, is_there: bool) -> None:
        self.name, self.function, self.is_there = name, function, is_there

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("argtypes", "restype"):
            setattr(self.function, name, value)
        else:
            super().__setattr__(name, value)

    def __call__(self, *arguments: Any) -> Any:
        if not self.is_there:
            ctypes.set_errno(errno.EINVAL)
            return -1
        try:
            return FAULT.call(self.name, self.function, arguments, {})
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
            return -1


def fails_late(name: str, function: Any, arguments: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """The call does its work and still reports a failure, as network file systems do."""
    function(*arguments, **more)
    raise OSError(errno.EIO, f"no luck with {name}, but done")


def dies(*_: Any) -> Any:
    """The process is killed before the call."""
    os.kill(os.getpid(), 9)


def dies_inside(name: str, function: Any, arguments: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """The process is killed in the middle of a write, or after any other call."""
    if name in ("write", "pwrite"):
        function(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2], *arguments[2:])
    else:
        function(*arguments, **more)
    os.kill(os.getpid(), 9)


class Campaign:
    """One scenario, with what it finds and what it makes of it."""

    def __init__(self, scenario: Scenario, directory: Path) -> None:
        self.scenario, self.directory = scenario, directory
        self.template = directory / "template"
        self.template.mkdir()
        scenario.prepare(self.template)
        self.before = folder_contents(self.template)
        trial = self.place("trial")
        with FAULT.armed(None, fails(0)) as seen:
            scenario.act(trial)
        self.calls = list(seen)
        self.after = folder_contents(trial)
        assert self.before != self.after
        assert names_in(trial) == sorted(self.after)

    def place(self, name: str) -> Path:
        place = self.directory / name
        shutil.copytree(self.template, place, symlinks=True)
        return place

    def fail_at(self, at: int, act: Act) -> None:
        place = self.place("try")
        failure = None
        try:
            with FAULT.armed(at, act):
                self.scenario.act(place)
        except CheckpointError as error:
            failure = error
        found = folder_contents(place)
        if failure is None:
            assert all(found.get(name) == self.after[name] for name in self.after), "it failed in silence"
        else:
            assert any(text in str(failure) for text in ("no luck", *map(os.strerror, (*ERRORS, errno.EEXIST)))), (
                failure
            )
            is_clean = set(names_in(place)) <= {*found, *names_in(self.template)} or self.calls[at] in REMOVALS
            assert is_clean or act is fails_late or found == self.after, "a failure left something"
        self.require_sound(place)

    def kill_at(self, at: int, act: Act) -> None:
        place = self.place("try")
        child = os.fork()
        if child == 0:
            with FAULT.armed(at, act):
                self.scenario.act(place)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 9
        self.require_sound(place)

    def require_sound(self, place: Path) -> None:
        """What every reader and the next writer must find, wherever it ended."""
        found = folder_contents(place)
        for name in self.before.keys() | self.after.keys():
            old, new = self.before.get(name), self.after.get(name)
            assert found.get(name) in (old, new), f"{name} is neither the old nor the new one"
        if self.before.keys() - found.keys():
            assert all(found.get(name) == self.after[name] for name in self.after), "removed before the commit"
        assert not found.keys() - self.before.keys() - self.after.keys(), "litter is listed"
        assert all(verify_checkpoint(place / name).ok for name in found)
        assert {each.path.name for each in survey(place).found} == set(found)
        self.scenario.act(place)
        assert folder_contents(place) == self.after
        assert names_in(place) == sorted(self.after), "litter was not swept"
        shutil.rmtree(place)


def folder_contents(folder: Path) -> dict[str, Contents]:
    return {path.name: contents_of(path) for path in list_checkpoints(folder)}


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def run_errors(campaign: Campaign) -> int:
    for at in range(len(campaign.calls)):
        for act in (*map(fails, ERRORS), fails_late):
            campaign.fail_at(at, act)
    return (len(ERRORS) + 1) * len(campaign.calls)


def run_kills(campaign: Campaign, seed: int, at_most: int) -> int:
    points = [(at, act) for at in range(len(campaign.calls)) for act in (dies, dies_inside)]
    chosen = points if len(points) <= at_most else random.Random(seed).sample(points, at_most)
    for at, act in chosen:
        campaign.kill_at(at, act)
    return len(chosen)


def main(mode: str, name: str, directory: str, seed: str, at_most: str) -> None:
    scenario = SCENARIOS[name]
    install(can_exchange=scenario.can_exchange)
    campaign = Campaign(scenario, Path(directory))
    errors = 0 if mode == "kills" else run_errors(campaign)
    kills = run_kills(campaign, int(seed), int(at_most))
    sys.stdout.write(json.dumps({"errors": errors, "kills": kills, "calls": Counter(campaign.calls)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
