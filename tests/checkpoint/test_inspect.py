from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointNotFoundError, IntegrityError
from rlpipe.snapshot import Snapshot, Spec, content_hash, fingerprint
from rlpipe.snapshot.snapshot import component
from tests.checkpoint.components import policy, tree
from tests.checkpoint.conftest import OpenedFiles


def test_a_tree(tmp_path: Path, opened_files: OpenedFiles) -> None:
    snapshot = tree(2, shared=np.arange(4))
    path = write_checkpoint(snapshot, tmp_path / "ckpt", backend="pickle", provenance={"task": "save"})
    with opened_files.below(path) as opened:
        info = inspect_checkpoint(path)
    assert {Path(each).name for each in opened} == {"manifest.json"}
    assert [each.path for each in info.walk()] == ["", "policies", "policies/p0", "policies/p1"]
    assert info.provenance == {"task": "save"}
    assert info.created is not None
    assert info.content_hash == content_hash(snapshot)
    assert (info.backend, info.file_size, info.arrays) == (None, 0, ())
    assert info.children["policies"].ties == (("p0/shared", "p1/shared"),)


def test_a_component(tmp_path: Path) -> None:
    snapshot = tree(1)
    path = write_checkpoint(snapshot, tmp_path / "ckpt")
    info = inspect_checkpoint(path / "policies" / "p0")
    assert info.class_path == "rlpipe.policies.policy.Policy"
    assert info.fingerprint == fingerprint(component(snapshot, "policies/p0"))
    assert (info.created, info.provenance, info.version) == (None, {}, 1)
    assert [(each.key, each.dtype, each.shape, each.role, each.nbytes) for each in info.arrays] == [
        ("encoder/0/bias", "float32", (8,), "inference", 32),
        ("encoder/0/weight", "float32", (8, 4), "inference", 128),
        ("history/2", "int64", (3,), "inference", 24),
        ("vf/weight", "float32", (1, 8), "training", 32),
    ]
    assert info.roles["steps"] == "inference"
    assert info.file_size == (path / "policies" / "p0" / "state.h5").stat().st_size


def test_needs_no_array_file(tmp_path: Path) -> None:
    path = write_checkpoint(tree(2), tmp_path / "ckpt")
    for each in path.rglob("state.h5"):
        each.unlink()
    assert len(inspect_checkpoint(path).children["policies"].children) == 2


def test_a_tied_array_says_to_what(tmp_path: Path) -> None:
    array = np.arange(3)
    snapshot = Snapshot(Spec("rlpipe.Any"), {"a": array, "b": array}, {"a": "inference", "b": "inference"})
    info = inspect_checkpoint(write_checkpoint(snapshot, tmp_path / "ckpt"))
    assert [(each.key, each.tied_to) for each in info.arrays] == [("a", ""), ("b", "a")]


def test_notes_what_is_not_listed(tmp_path: Path) -> None:
    path = write_checkpoint(tree(1), tmp_path / "ckpt")
    shutil.copytree(path / "policies" / "p0", path / "policies" / "guest")
    assert inspect_checkpoint(path).children["policies"].notes == ("guest is not listed",)


def test_damage_and_absence(tmp_path: Path) -> None:
    path = write_checkpoint(tree(1), tmp_path / "ckpt")
    shutil.rmtree(path / "policies" / "p0")
    with pytest.raises(IntegrityError, match="policies/p0 is missing"):
        inspect_checkpoint(path)
    with pytest.raises(CheckpointNotFoundError):
        inspect_checkpoint(path / "nothing")


def test_the_store_loads_nothing_heavy(tmp_path: Path) -> None:
    write_checkpoint(policy(1), tmp_path / "ckpt")
    code = (
        "import sys\n"
        "from rlpipe.checkpoint import checkpointable, inspect, reader, verify, writer\n"
        "snapshot = reader.read_checkpoint(sys.argv[1])\n"
        "for backend in ('hdf5', 'pickle'):\n"
        "    writer.write_checkpoint(snapshot, sys.argv[1] + backend, backend=backend)\n"
        "    assert verify.verify_checkpoint(sys.argv[1] + backend).ok\n"
        "heavy = {'torch', 'h5py', 'hydra', 'omegaconf', 'gymnasium', 'onnx', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "ckpt"], check=True, cwd=Path(__file__).parents[2])
