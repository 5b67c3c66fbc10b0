"""What is counted and not timed: bytes read, links made, memory taken."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Selection
from rlpipe.snapshot.state import arrays
from tests.benchmarks import states

BACKENDS = ("hdf5", "pickle")
REPOSITORY = Path(__file__).parents[2]

MEMORY = """
import os, sys, threading, time
from pathlib import Path
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import restore_into
from rlpipe.checkpoint.writer import write_checkpoint
from tests.benchmarks import states
from tests.benchmarks.restoring import Tensors

def own():
    # Memory of this process alone: pages of files in the cache of the system are not its own.
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024

class Peak(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.start_at = self.peak = own()
        self.going = True

    def run(self):
        while self.going:
            self.peak = max(self.peak, own())
            time.sleep(0.002)

    def stop(self):
        self.going = False
        self.join()
        return self.peak - self.start_at

snapshot = states.with_class(states.state_c(), "tests.benchmarks.restoring.Tensors")
nbytes = sum(array.nbytes for array in states.flat_arrays(snapshot).values())
live = Tensors()
for tensor in live.tensors.values():
    tensor.fill_(0)
for backend in ("hdf5", "pickle"):
    path = Path(sys.argv[1]) / backend
    watch = Peak(); watch.start()
    write_checkpoint(snapshot, path, backend=backend, durability="none")
    saving = watch.stop()
    watch = Peak(); watch.start()
    restore_into(live, read_checkpoint(path, arrays="later"))
    print(f"{backend}: save {saving / nbytes:.4f}, restore {watch.stop() / nbytes:.4f} of the state", end="; ")
"""


@contextmanager
def counted(*names: str) -> Iterator[dict[str, list[Any]]]:
    """The results of functions of `os` that are called while the block runs."""
    results: dict[str, list[Any]] = {name: [] for name in names}
    real = {name: getattr(os, name) for name in names}

    def counting(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            result = real[name](*arguments, **more)
            results[name].append(result)
            return result

        return call

    for name in names:
        setattr(os, name, counting(name))
    try:
        yield results
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def bytes_of_one(root: Path) -> str:
    """What is read to load one policy of 200."""
    texts = []
    snapshot = states.state_b()
    for backend in BACKENDS:
        path = write_checkpoint(snapshot, root / backend, backend=backend, durability="none")
        with counted("open", "read", "pread") as found:
            loaded = read_checkpoint(path, Selection(components=("policies/p123",)))
        part = loaded.children["policies"].children["p123"]
        wanted = sum(array.nbytes for array in arrays(part.state).values())
        on_the_path = (path, path / "policies", path / "policies" / "p123")
        manifests = sum((each / "manifest.json").stat().st_size for each in on_the_path)
        read = sum(map(len, (*found["read"], *found["pread"])))
        over = read - manifests - wanted
        texts.append(
            f"{backend}: {read} bytes in {len(found['open'])} files = manifests {manifests} + arrays {wanted} + "
            f"{over} around them ({over / wanted:.3f})"
        )
    return "; ".join(texts)


def links_of_199(root: Path) -> str:
    """What a save of 200 policies writes when 199 have not changed."""
    texts = []
    for backend in BACKENDS:
        old = write_checkpoint(states.state_b(), root / f"{backend}-old", backend=backend, durability="none")
        with counted("mkdir", "link", "write", "pwrite") as found:
            write_checkpoint(
                states.state_b_later(), root / f"{backend}-new", backend=backend, durability="none", previous=old
            )
        calls = Counter({name: len(results) for name, results in found.items()})
        nbytes = sum((*found["write"], *found["pwrite"]))
        texts.append(
            f"{backend}: {calls['mkdir']} mkdir, {calls['link']} links, {calls['write']} writes of {nbytes} bytes"
        )
    return "; ".join(texts)


def fsyncs(root: Path) -> str:
    """Durable saves are counted: files + directories + 1."""
    texts = []
    for name, snapshot in (("a", states.state_a()), ("b", states.state_b())):
        with counted("fsync") as found:
            path = write_checkpoint(snapshot, root / name)
        files = sum(each.is_file() for each in path.rglob("*"))
        directories = 1 + sum(each.is_dir() for each in path.rglob("*"))
        texts.append(f"{name}: {len(found['fsync'])} = {files} + {directories} + 1")
    return "; ".join(texts)


def peak_memory(root: Path) -> str:
    """Memory beside the state while 1 GiB is saved and restored, in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, root], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return run.stdout.rstrip("; ")


def whole_processes(root: Path) -> str:
    """Seconds of whole processes, medians of five: what a person waits for. Nothing and torch are for comparison."""
    programs = {
        "nothing": ("-c", ""),
        "import rlpipe": ("-c", "import rlpipe"),
        "task=info": ("-m", "rlpipe", "task=info"),
        "task=restore": ("-m", "rlpipe", "task=restore"),
        "import torch": ("-c", "import torch"),
    }
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(5):
        for name, arguments in programs.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], cwd=root, env=environment, capture_output=True, check=True)
            seconds[name].append(time.perf_counter() - start)
    return "; ".join(f"{name} {statistics.median(found):.2f} s" for name, found in seconds.items())


COUNTS: dict[str, Callable[[Path], str]] = {
    "b_bytes_of_one": bytes_of_one,
    "b_links_of_199": links_of_199,
    "fsyncs": fsyncs,
    "c_peak_memory": peak_memory,
    "whole_processes": whole_processes,
}
