"""How the checkpoint store compares with its peers: ratios of medians from one interleaved run.

    python tests/benchmarks/store.py [--rounds 11] [--case a_save ...]

Run by hand on a quiet machine; absolute times mean little, ratios within one run do. Hashing is on for rlpipe and no
peer verifies anything. Peers: safetensors.torch (ST), safetensors.numpy (SN), torch.save and torch.load with
weights_only (T), torch.load with mmap (TM), h5py written plainly (H5), numpy.savez (NZ), torch.distributed.checkpoint
(DCP).
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from torch.distributed.checkpoint.state_dict_saver import save as save_distributed

from rlpipe.backends.array_file import Durability
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Selection, Snapshot, Spec, walk
from rlpipe.snapshot.state import arrays, entries, from_dotted

Work = Callable[[], object]


def policy(layers: int, width: int, depth: int, seed: int) -> Snapshot:
    """A component of `layers` pairs of a (width, depth) weight and a (width,) bias."""
    rng = np.random.default_rng(seed)
    flat: dict[str, Any] = {}
    for index in range(layers):
        flat[f"encoder.{index}.weight"] = rng.standard_normal((width, depth), np.float32)
        flat[f"encoder.{index}.bias"] = rng.standard_normal(width, np.float32)
    return leaf(flat)


def leaf(flat: Mapping[str, Any]) -> Snapshot:
    """A component with these arrays, all of role inference."""
    state = from_dotted(flat)
    return Snapshot(Spec("some.Policy"), state, dict.fromkeys(entries(state), "inference"))


def tree(policies: Mapping[str, Snapshot]) -> Snapshot:
    """An algorithm with these policies."""
    return Snapshot(Spec("some.Algorithm"), children={"policies": Snapshot(Spec("some.Box"), children=policies)})


def state_a() -> Snapshot:
    """3 policies of 20 arrays, 0.5 MB."""
    return tree({f"p{index}": policy(10, 64, 64, index) for index in range(3)})


def state_b() -> Snapshot:
    """200 policies of 12 arrays, 2.7 MB."""
    return tree({f"p{index:03}": policy(6, 23, 23, index) for index in range(200)})


def state_c() -> Snapshot:
    """One policy of 16 arrays of 64 MiB."""
    rng = np.random.default_rng(0)
    return tree({"p0": leaf({f"w{i:02}.weight": rng.random((4096, 4096), np.float32) for i in range(16)})})


def flat_arrays(snapshot: Snapshot) -> dict[str, Any]:
    """Every array of a tree under its dotted full name."""
    return {
        f"{path}/{key}".replace("/", "."): array
        for path, part in walk(snapshot)
        for key, array in arrays(part.state).items()
    }


@dataclass
class Case:
    """Works to compare; the first ones are rlpipe's. `limits` are the ratios that rlpipe's works must keep."""

    name: str
    works: dict[str, Work]
    limits: dict[str, Mapping[str, float]] = field(default_factory=dict)
    between: Work = lambda: None


def measure(case: Case, rounds: int) -> dict[str, float]:
    """Median seconds of each work, all of them once a round, after a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in case.works}
    for turn in range(rounds + 1):
        for name, work in case.works.items():
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
    return {name: statistics.median(found) for name, found in seconds.items()}


class Fresh:
    """New paths below one folder, and their removal."""

    def __init__(self, root: Path) -> None:
        self.root = root
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


def save_case(
    name: str, snapshot: Snapshot, root: Path, durability: Durability, limits: dict[str, Mapping[str, float]]
) -> Case:
    """Saving against every peer that writes one file."""
    fresh = Fresh(root)
    flat = flat_arrays(snapshot)
    tensors = {key: torch.from_numpy(array) for key, array in flat.items()}
    works: dict[str, Work] = {
        "hdf5": lambda: save(snapshot, fresh.path(), "hdf5", durability),
        "pickle": lambda: save(snapshot, fresh.path(), "pickle", durability),
        "ST": lambda: synced(safetensors.torch.save_file, tensors, fresh.path(".st"), durability),
        "SN": lambda: synced(safetensors.numpy.save_file, flat, fresh.path(".st"), durability),
        "T": lambda: synced(torch.save, tensors, fresh.path(".pt"), durability),
    }
    if "_c_" not in f"_{name}_":
        works |= {
            "H5": lambda: synced(write_h5py, flat, fresh.path(".h5"), durability),
            "NZ": lambda: np.savez(fresh.path(".npz"), **flat),
            "DCP": lambda: save_distributed(tensors, checkpoint_id=fresh.path(), no_dist=True),
        }
    return Case(name, works, limits, fresh.clear)


def save(snapshot: Snapshot, path: Path, backend: str, durability: Durability) -> None:
    """rlpipe's save."""
    write_checkpoint(snapshot, path, backend=backend, durability=durability)


def synced(writer: Callable[[Any, Any], object], value: object, path: Path, durability: Durability) -> None:
    """A peer's save, brought to the disk where rlpipe does so too."""
    writer(value, path)
    if durability == "fsync":
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def save_many_case(snapshot: Snapshot, root: Path) -> Case:
    """Saving 200 policies, against safetensors writing one file in each of the same 200 directories."""
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
        "hdf5": lambda: save(snapshot, fresh.path(), "hdf5", "none"),
        "pickle": lambda: save(snapshot, fresh.path(), "pickle", "none"),
        "ST": peer,
    }
    return Case("b_save_200_dirs", works, {"hdf5": {"ST": 1.0}, "pickle": {"ST": 1.0}}, fresh.clear)


def load_case(name: str, snapshot: Snapshot, root: Path, limits: dict[str, Mapping[str, float]]) -> Case:
    """Loading everything."""
    flat = flat_arrays(snapshot)
    tensors = {key: torch.from_numpy(array) for key, array in flat.items()}
    paths = {backend: write_checkpoint(snapshot, root / backend, backend=backend) for backend in ("hdf5", "pickle")}
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
    case = load_case("b_load_one", snapshot, root, {each: {"ST": 0.05} for each in ("hdf5", "pickle")})
    one = Selection(components=("policies/p123",))
    case.works |= {
        "hdf5": lambda: read_checkpoint(root / "hdf5", one),
        "pickle": lambda: read_checkpoint(root / "pickle", one),
    }
    return case


CASES: dict[str, Callable[[Path], Case]] = {
    "a_save": lambda root: save_case(
        "a_save", state_a(), root, "none", {"hdf5": {"ST": 0.75, "T": 0.65}, "pickle": {"ST": 0.5, "T": 0.45}}
    ),
    "a_load": lambda root: load_case(
        "a_load", state_a(), root, {"hdf5": {"ST": 0.35, "T": 0.1}, "pickle": {"ST": 0.3, "T": 0.08}}
    ),
    "b_save_200_dirs": lambda root: save_many_case(state_b(), root),
    "b_save_tmpfs": lambda root: save_case(
        "b_save_tmpfs", state_b(), root, "none", {"hdf5": {"ST": 0.6}, "pickle": {"ST": 0.5}}
    ),
    "b_load": lambda root: load_case("b_load", state_b(), root, {"hdf5": {"ST": 0.35}, "pickle": {"ST": 0.35}}),
    "b_load_one": lambda root: load_one_case(state_b(), root),
    "c_save_cache": lambda root: save_case(
        "c_save_cache", state_c(), root, "none", {"hdf5": {"ST": 1.0}, "pickle": {"ST": 1.0}}
    ),
    "c_save_durable": lambda root: save_case(
        "c_save_durable", state_c(), root, "fsync", {"hdf5": {"ST": 0.85}, "pickle": {"ST": 0.85}}
    ),
}


def report(case: Case, medians: Mapping[str, float]) -> str:
    """A line for each work: its median, and its ratios to the peers with their limits."""
    peers = [name for name in case.works if name not in ("hdf5", "pickle")]
    lines = [f"{case.name}: " + "  ".join(f"{name} {1e3 * medians[name]:.2f} ms" for name in case.works)]
    for name in ("hdf5", "pickle"):
        ratios = []
        for peer in peers:
            ratio = medians[name] / medians[peer]
            limit = case.limits.get(name, {}).get(peer)
            verdict = "" if limit is None else f" (limit {limit}{'' if ratio <= limit else ', MISSED'})"
            ratios.append(f"{ratio:.3f} {peer}{verdict}")
        lines.append(f"    {name:7}" + "  ".join(ratios))
    return "\n".join(lines)


def main() -> None:
    """Measure the chosen cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--case", nargs="*", choices=sorted(CASES), default=sorted(CASES))
    chosen = parser.parse_args()
    for name in chosen.case:
        with folder(Path("/dev/shm") if name.endswith("tmpfs") else None) as root:
            case = CASES[name](root)
            sys.stdout.write(report(case, measure(case, chosen.rounds)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
