"""Mutants of good files: each is read, or refused in words, within 2 s and 64 MiB above the file.

The short run is part of the tests. A longer one by hand: RLPIPE_FUZZ=100 multiplies the number of mutants, and
RLPIPE_FUZZ_SEED chooses others. A mutant that fails is kept, and its path is in the message.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import h5py
import numpy as np
import pytest
import torch

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot.identity import content_hash
from rlpipe.snapshot.state import State
from tests.checkpoint.components import policy
from tests.fuzz.limits import Outcome, outcomes
from tests.fuzz.mutations import mutated, mutated_manifest, mutated_zip
from tests.golden.checkpoints import HERE
from tests.importers.sb3_zips import GOLDEN

TIMES = float(os.environ.get("RLPIPE_FUZZ", "1"))
SEED = int(os.environ.get("RLPIPE_FUZZ_SEED", "0"))
STATE: State = {
    "encoder": {"0": {"weight": np.arange(12, dtype="f4").reshape(3, 4), "bias": np.zeros(3, "f4")}},
    "count": np.array(3),
    "flags": np.array([True, False]),
    "none": np.zeros((0, 2)),
}
CHECKPOINT_V0 = HERE / "checkpoint_v0"
BACKENDS = {"hdf5": "state.h5", "pickle": "state.pkl"}


def number(count: int) -> range:
    return range(max(1, int(count * TIMES)))


def rng(*names: object) -> Random:
    return Random(f"{SEED} {names}")


def require_all_typed(reader: str, paths: list[Path]) -> list[Outcome]:
    found = outcomes(reader, paths)
    for path, outcome in zip(paths, found, strict=True):
        if not outcome.is_typed:
            kept = Path(tempfile.mkdtemp(prefix="rlpipe-fuzz-")) / path.name
            (shutil.copytree if path.is_dir() else shutil.copy)(path, kept)
            pytest.fail(f"{reader} on {kept}: {outcome}")
    return found


def mutants(folder: Path, seed: bytes, mutate: Callable[[Random, bytes], bytes], count: int) -> list[Path]:
    """Files with a changed seed in each."""
    folder.mkdir()
    random, paths = rng(folder.name, mutate.__name__), []
    for place in number(count):
        paths.append(folder / f"mutant{place}")
        paths[-1].write_bytes(mutate(random, seed))
    return paths


def require_changes_matter(found: list[Outcome]) -> None:
    assert len([outcome for outcome in found if outcome.error]) > len(found) // 10


def hdf5_file(folder: Path, name: str) -> bytes:
    if name == "own":
        return (write_checkpoint(policy(1), folder / "ckpt") / "state.h5").read_bytes()
    with h5py.File(folder / name, "w", libver=name) as file:
        for key, value in _flat(STATE):
            file[key] = value
        file["again"] = file["encoder/0/bias"]
        file["encoder"].attrs["unit"] = 1
    return (folder / name).read_bytes()


def _flat(state: State, prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in state.items():
        yield from _flat(value, f"{prefix}{name}/") if isinstance(value, dict) else [(prefix + name, value)]


def hdf5_mutants(folder: Path, count: int) -> list[Path]:
    seeds = {name: hdf5_file(folder, name) for name in ("earliest", "latest", "own")}
    return [path for name, seed in seeds.items() for path in mutants(folder / f"m_{name}", seed, mutated, count)]


def test_hdf5_files(tmp_path: Path) -> None:
    require_changes_matter(require_all_typed("forked hdf5", hdf5_mutants(tmp_path, 60)))


def test_hdf5_files_in_whole_processes(tmp_path: Path) -> None:
    require_all_typed("hdf5", hdf5_mutants(tmp_path, 2))


def pickle_file(folder: Path, name: str) -> bytes:
    if name == "own":
        return (write_checkpoint(policy(1), folder / "ckpt", backend="pickle") / "state.pkl").read_bytes()
    more = {"more": [1, (2.5, None, b"x"), np.float32(1.5)], "turned": np.arange(6.0).reshape(2, 3).T}
    return pickle.dumps({**STATE, **more}, int(name))


@pytest.mark.parametrize("reader", ["pickle", "restricted"])
def test_pickles(tmp_path: Path, reader: str) -> None:
    seeds = {name: pickle_file(tmp_path, name) for name in ("0", "2", "5", "own")}
    paths = [path for name, seed in seeds.items() for path in mutants(tmp_path / f"m_{name}", seed, mutated, 50)]
    require_changes_matter(require_all_typed(reader, paths))


def torch_file(*, zipped: bool) -> bytes:
    stream = io.BytesIO()
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    torch.save({"model": module.state_dict(), "step": 3}, stream, _use_new_zipfile_serialization=zipped)
    return stream.getvalue()


def test_files_of_torch(tmp_path: Path) -> None:
    paths = mutants(tmp_path / "old", torch_file(zipped=False), mutated, 60)
    paths += mutants(tmp_path / "zip", torch_file(zipped=True), mutated, 60)
    paths += mutants(tmp_path / "member", torch_file(zipped=True), mutated_zip, 60)
    require_changes_matter(require_all_typed("torch", paths))


def test_zips_of_stable_baselines3(tmp_path: Path) -> None:
    seed = (GOLDEN / "ppo_box.zip").read_bytes()
    paths = mutants(tmp_path / "zip", seed, mutated, 25) + mutants(tmp_path / "member", seed, mutated_zip, 25)
    require_changes_matter(require_all_typed("sb3", paths))


def copies(path: Path, name: str, mutate: Callable[[Random, bytes], bytes], count: int) -> list[Path]:
    """Copies of a checkpoint with one changed file."""
    paths = mutants(path.parent / f"{path.name}_{name}_{mutate.__name__}", (path / name).read_bytes(), mutate, count)
    made = []
    for mutant in paths:
        made.append(shutil.copytree(path, mutant.with_suffix(".ckpt")))
        shutil.move(mutant, made[-1] / name)
    return made


def sealed(random: Random, text: bytes) -> bytes:
    return mutated_manifest(random, text.decode()).encode()


def seed_checkpoint(folder: Path, backend: str) -> Path:
    shared = np.arange(3)
    (folder / "files").mkdir(exist_ok=True)
    (folder / "files" / "policy.onnx").write_bytes(b"x")
    snapshot, attachments = policy(1, tied=[shared, shared]), {"": folder / "files"}
    return write_checkpoint(snapshot, folder / backend, backend=backend, attachments=attachments)


def test_checkpoints_are_right_or_refused(tmp_path: Path) -> None:
    """One hash is right for both backends."""
    paths = []
    for backend, file in BACKENDS.items():
        path = seed_checkpoint(tmp_path, backend)
        paths += copies(path, "manifest.json", mutated, 30) + copies(path, file, mutated, 30)
    found = require_all_typed("checkpoint", paths)
    assert {outcome.text for outcome in found if not outcome.error} <= {content_hash(read_checkpoint(path))}
    assert len([outcome for outcome in found if outcome.error]) > len(found) // 2


def test_manifests_with_right_hashes(tmp_path: Path) -> None:
    paths = [path for name in BACKENDS for path in copies(seed_checkpoint(tmp_path, name), "manifest.json", sealed, 80)]
    require_changes_matter(require_all_typed("checkpoint", paths))


def test_manifests_of_version_0_with_right_hashes(tmp_path: Path) -> None:
    """What a migration is given is believed no more than what it gives."""
    path = shutil.copytree(CHECKPOINT_V0, tmp_path / "ckpt")
    require_changes_matter(require_all_typed("checkpoint", copies(path, "manifest.json", sealed, 40)))
