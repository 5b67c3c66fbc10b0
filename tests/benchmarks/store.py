"""How the checkpoint store compares with its peers: ratios from one interleaved run.

    python -m tests.benchmarks.store [--rounds 11] [--case a_save ...]

Run by hand on a quiet machine; absolute times mean little, ratios within one run do. Ratios are of medians, those of
minima stand in brackets. Hashing is on for rlpipe and no peer verifies anything. Peers: safetensors.torch (ST),
safetensors.numpy (SN), torch.save and torch.load with weights_only (T), torch.load with mmap (TM), h5py written plainly
(H5), numpy.savez (NZ), torch.distributed.checkpoint (DCP). What can be counted (bytes, links, memory) is counted.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from torch.distributed.checkpoint.state_dict_saver import save as save_distributed

from rlpipe.backends.array_file import Durability
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import build, restore_into
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Selection, Snapshot
from rlpipe.snapshot.state import arrays
from tests.benchmarks import states
from tests.benchmarks.counting import COUNTS
from tests.benchmarks.restoring import Tensors

Work = Callable[[], object]
Limits = dict[str, Mapping[str, float]]
BACKENDS = ("hdf5", "pickle")
OWN = ("tests.benchmarks.*",)


@dataclass
class Case:
    """Works to compare; the first ones are rlpipe's. `limits` are the ratios that rlpipe's works must keep."""

    name: str
    works: dict[str, Work]
    limits: Limits = field(default_factory=dict)
    between: Work = lambda: None


def measure(case: Case, rounds: int) -> dict[str, list[float]]:
    """Seconds of each work, all of them once a round, after a warm-up.

    Each round has an order of its own: what comes after a work that fills the caches of the processor pays for it.
    """
    seconds: dict[str, list[float]] = {name: [] for name in case.works}
    for turn in range(rounds + 1):
        for name, work in Random(turn).sample([*case.works.items()], len(case.works)):
            case.between()
            gc.collect()
            gc.disable()
            start = time.perf_counter()
            kept = work()
            stop = time.perf_counter()
            gc.enable()
            del kept
            if turn:
                seconds[name].append(stop - start)
    return seconds


class Fresh:
    """New paths below one folder, and their removal."""

    def __init__(self, root: Path) -> None:
        self.root = root / "fresh"
        self.root.mkdir()
        self.count = 0

    def path(self, suffix: str = "") -> Path:
        """A path where nothing is."""
        self.count += 1
        return self.root / f"{self.count:06}{suffix}"

    def clear(self) -> None:
        """Remove what was written so far."""
        for each in self.root.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()


@contextmanager
def folder(where: Path | None = None) -> Iterator[Path]:
    """A temporary folder."""
    with tempfile.TemporaryDirectory(dir=where, prefix="rlpipe-bench-") as name:
        yield Path(name)


def write_h5py(flat: Mapping[str, Any], path: Path) -> None:
    """Plain h5py, a dataset an array."""
    with h5py.File(path, "w") as file:
        for name, array in flat.items():
            file.create_dataset(name.replace(".", "/"), data=array)


def save_case(name: str, snapshot: Snapshot, root: Path, durability: Durability, limits: Limits) -> Case:
    """Saving against every peer that writes one file."""
    fresh = Fresh(root)
    flat = states.flat_arrays(snapshot)
    tensors = {key: torch.from_numpy(array) for key, array in flat.items()}
    works: dict[str, Work] = {
        "hdf5": lambda: write_checkpoint(snapshot, fresh.path(), backend="hdf5", durability=durability),
        "pickle": lambda: write_checkpoint(snapshot, fresh.path(), backend="pickle", durability=durability),
        "ST": lambda: synced(safetensors.torch.save_file, tensors, fresh.path(".st"), durability),
        "SN": lambda: synced(safetensors.numpy.save_file, flat, fresh.path(".st"), durability),
        "T": lambda: synced(torch.save, tensors, fresh.path(".pt"), durability),
    }
    if not name.startswith("c_"):
        works |= {
            "H5": lambda: synced(write_h5py, flat, fresh.path(".h5"), durability),
            "NZ": lambda: np.savez(fresh.path(".npz"), **flat),
            "DCP": lambda: save_distributed(tensors, checkpoint_id=fresh.path(), no_dist=True),
        }
    return Case(name, works, limits, fresh.clear)


def synced(writer: Callable[[Any, Any], object], value: object, path: Path, durability: Durability) -> None:
    """A peer's save, brought to the disk where rlpipe does so too."""
    writer(value, path)
    if durability == "fsync":
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def save_many_case(snapshot: Snapshot, root: Path) -> Case:
    """Saving 200 policies, against safetensors writing one file in each of the same 200 directories.

    Nothing is removed until the end. ext4 without a journal looks at every inode that was freed in the last minutes
    each time it makes a new one, so that removing thousands in each round makes each new file up to ten times as dear.
    """
    fresh = Fresh(root)
    parts = snapshot.children["policies"].children
    tensors = {
        name: {key.replace("/", "."): torch.from_numpy(array) for key, array in arrays(part.state).items()}
        for name, part in parts.items()
    }

    def peer() -> None:
        path = fresh.path()
        for name, values in tensors.items():
            directory = path / name
            directory.mkdir(parents=True)
            safetensors.torch.save_file(values, directory / "state.safetensors")

    works: dict[str, Work] = {
        "hdf5": lambda: write_checkpoint(snapshot, fresh.path(), backend="hdf5", durability="none"),
        "pickle": lambda: write_checkpoint(snapshot, fresh.path(), backend="pickle", durability="none"),
        "ST": peer,
    }
    return Case("b_save_200_dirs", works, {each: {"ST": 1.0} for each in BACKENDS})


def save_again_case(root: Path) -> Case:
    """Saving 200 policies of which one has changed, beside the checkpoint before, against safetensors writing all."""
    fresh = Fresh(root)
    old, new = states.state_b(), states.state_b_later()
    before = {each: write_checkpoint(old, root / each, backend=each, durability="none") for each in BACKENDS}
    tensors = {key: torch.from_numpy(array) for key, array in states.flat_arrays(new).items()}
    works: dict[str, Work] = {
        "hdf5": lambda: write_checkpoint(new, fresh.path(), durability="none", previous=before["hdf5"]),
        "pickle": lambda: write_checkpoint(
            new, fresh.path(), backend="pickle", durability="none", previous=before["pickle"]
        ),
        "ST": lambda: safetensors.torch.save_file(tensors, fresh.path(".st")),
    }
    return Case("b_save_again", works, {}, fresh.clear)


def load_case(name: str, snapshot: Snapshot, root: Path, limits: Limits) -> Case:
    """Loading everything."""
    flat = states.flat_arrays(snapshot)
    tensors = {key: torch.from_numpy(array) for key, array in flat.items()}
    paths = {each: write_checkpoint(snapshot, root / each, backend=each, durability="none") for each in BACKENDS}
    safetensors.torch.save_file(tensors, root / "x.st")
    torch.save(tensors, root / "x.pt")
    return Case(
        name,
        {
            "hdf5": lambda: read_checkpoint(paths["hdf5"]),
            "pickle": lambda: read_checkpoint(paths["pickle"]),
            "ST": lambda: safetensors.torch.load_file(root / "x.st"),
            "SN": lambda: safetensors.numpy.load_file(root / "x.st"),
            "T": lambda: torch.load(root / "x.pt", weights_only=True),
            "TM": lambda: torch.load(root / "x.pt", weights_only=True, mmap=True),
        },
        limits,
    )


def load_one_case(snapshot: Snapshot, root: Path) -> Case:
    """Loading one policy of 200; the peers have one file and load it whole."""
    case = load_case("b_load_one", snapshot, root, {each: {"ST": 0.05} for each in BACKENDS})
    one = Selection(components=("policies/p123",))
    case.works |= {
        "hdf5": lambda: read_checkpoint(root / "hdf5", one),
        "pickle": lambda: read_checkpoint(root / "pickle", one),
    }
    return case


def restore_case(name: str, root: Path, limits: Limits) -> Case:
    """Restoring 1 GiB into tensors: of an object built by the call, or of a live one."""
    snapshot = states.with_class(states.state_c(), "tests.benchmarks.restoring.Tensors")
    paths = {each: write_checkpoint(snapshot, root / each, backend=each, durability="none") for each in BACKENDS}
    tensors = {key: torch.from_numpy(array) for key, array in states.flat_arrays(snapshot).items()}
    safetensors.torch.save_file(tensors, root / "x.st")
    torch.save(tensors, root / "x.pt")
    is_new = name == "c_restore_new"
    live = None if is_new else Tensors()

    def own(path: Path) -> object:
        found = read_checkpoint(path, arrays="later")
        return build(found, trust=OWN) if live is None else restore_into(live, found)

    def peer(load: Callable[[], Mapping[str, Any]]) -> object:
        target = Tensors() if live is None else live
        for key, tensor in load().items():
            target.tensors[key].copy_(tensor)
        return target

    works: dict[str, Work] = {
        "hdf5": lambda: own(paths["hdf5"]),
        "pickle": lambda: own(paths["pickle"]),
        "ST": lambda: peer(lambda: safetensors.torch.load_file(root / "x.st")),
        "T": lambda: peer(lambda: torch.load(root / "x.pt", weights_only=True)),
        "TM": lambda: peer(lambda: torch.load(root / "x.pt", weights_only=True, mmap=True)),
    }
    return Case(name, works, limits)


def both(**limits: float) -> Limits:
    """The same limits for both backends."""
    return dict.fromkeys(BACKENDS, limits)


CASES: dict[str, Callable[[Path], Case]] = {
    "a_save": lambda root: save_case(
        "a_save", states.state_a(), root, "none", {"hdf5": {"ST": 0.75, "T": 0.65}, "pickle": {"ST": 0.5, "T": 0.45}}
    ),
    "a_load": lambda root: load_case(
        "a_load", states.state_a(), root, {"hdf5": {"ST": 0.35, "T": 0.1}, "pickle": {"ST": 0.3, "T": 0.08}}
    ),
    "b_save_200_dirs": lambda root: save_many_case(states.state_b(), root),
    "b_save_tmpfs": lambda root: save_case(
        "b_save_tmpfs", states.state_b(), root, "none", {"hdf5": {"ST": 0.6}, "pickle": {"ST": 0.5}}
    ),
    "b_save_again": save_again_case,
    "b_load": lambda root: load_case("b_load", states.state_b(), root, both(ST=0.35)),
    "b_load_one": lambda root: load_one_case(states.state_b(), root),
    "c_save_cache": lambda root: save_case("c_save_cache", states.state_c(), root, "none", both(ST=1.0)),
    "c_save_durable": lambda root: save_case("c_save_durable", states.state_c(), root, "fsync", both(ST=0.85)),
    "c_restore_new": lambda root: restore_case("c_restore_new", root, both(ST=1.3, T=0.3)),
    "c_restore_live": lambda root: restore_case("c_restore_live", root, both(ST=1.6, T=0.35)),
}


def report(case: Case, seconds: Mapping[str, list[float]]) -> str:
    """A line for each work: its median, and its ratios to the peers with their limits."""
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    lines = [f"{case.name}: " + "  ".join(f"{name} {1e3 * medians[name]:.2f} ms" for name in case.works)]
    for name in BACKENDS:
        ratios = []
        for peer in (each for each in case.works if each not in BACKENDS):
            ratio, least = medians[name] / medians[peer], min(seconds[name]) / min(seconds[peer])
            limit = case.limits.get(name, {}).get(peer)
            verdict = "" if limit is None else f" limit {limit}{'' if ratio <= limit else ' MISSED'}"
            ratios.append(f"{ratio:.3f} ({least:.3f}) {peer}{verdict}")
        lines.append(f"    {name:7}" + "  ".join(ratios))
    return "\n".join(lines)


def main() -> None:
    """Measure the chosen cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--case", nargs="*", choices=[*CASES, *COUNTS], default=[*CASES, *COUNTS])
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    for name in chosen.case:
        with folder(Path("/dev/shm") if name.endswith("tmpfs") else None) as root:
            if name in COUNTS:
                text = f"{name}: {COUNTS[name](root)}"
            else:
                case = CASES[name](root)
                text = report(case, measure(case, chosen.rounds))
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
