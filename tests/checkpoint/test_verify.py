"""Damage anywhere is found by verify, and by reading what is damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointError, CheckpointNotFoundError
from tests.checkpoint.components import tree

BACKENDS = {"hdf5": "state.h5", "pickle": "state.pkl"}


def written(directory: Path, backend: str) -> Path:
    shared = np.arange(4.0)
    return write_checkpoint(tree(2, shared=shared), directory / "ckpt", backend=backend, provenance={"task": "save"})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_whole_checkpoint(tmp_path: Path, backend: str) -> None:
    report = verify_checkpoint(written(tmp_path, backend))
    assert report.ok
    assert (report.findings, report.notes, report.components) == ((), (), 4)
    assert report.nbytes == sum(each.stat().st_size for each in tmp_path.rglob(BACKENDS[backend]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80, 0xFF])
def test_a_changed_byte_anywhere(tmp_path: Path, backend: str, flip: int) -> None:
    path = written(tmp_path, backend)
    for file in sorted(each for each in path.rglob("*") if each.is_file()):
        whole = file.read_bytes()
        for position in {0, len(whole) - 1, *range(flip % 13, len(whole), 47)}:
            file.write_bytes(whole[:position] + bytes([whole[position] ^ flip]) + whole[position + 1 :])
            with pytest.raises(CheckpointError) as caught:
                read_checkpoint(path)
            assert file.name in str(caught.value), position
            findings = verify_checkpoint(path).findings
            assert [(each.component, each.file) for each in findings] == [
                (file.parent.relative_to(path).as_posix().strip("."), file.name)
            ], position
        file.write_bytes(whole)
    assert verify_checkpoint(path).ok


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", ["cut", "extended", "empty", "zeroed", "missing"])
def test_a_changed_file(tmp_path: Path, backend: str, change: str) -> None:
    path = written(tmp_path, backend)
    for file in sorted(each for each in path.rglob("*") if each.is_file()):
        whole = file.read_bytes()
        middle = len(whole) // 2
        changed = {
            "cut": whole[:-1],
            "extended": whole + b"\n",
            "empty": b"",
            "zeroed": whole[:middle] + bytes(len(whole) - middle),
            "missing": None,
        }[change]
        file.unlink()
        if changed is not None:
            file.write_bytes(changed)
        with pytest.raises(CheckpointError):
            read_checkpoint(path)
        assert not verify_checkpoint(path).ok
        file.write_bytes(whole)
    assert verify_checkpoint(path).ok


def test_all_damage_is_listed(tmp_path: Path) -> None:
    path = written(tmp_path, "hdf5")
    (path / "policies" / "p0" / "state.h5").unlink()
    data = bytearray((path / "policies" / "p1" / "state.h5").read_bytes())
    data[130] ^= 1
    (path / "policies" / "p1" / "state.h5").write_bytes(data)
    lines = [str(each) for each in verify_checkpoint(path).findings]
    assert len(lines) == 2
    assert lines[0].startswith("policies/p0/state.h5: ")
    assert lines[1] == "policies/p1/state.h5, encoder/0/bias: its bytes have changed"


def test_swapped_components(tmp_path: Path) -> None:
    path = written(tmp_path, "hdf5")
    (path / "policies" / "p0").rename(path / "policies" / "t")
    (path / "policies" / "p1").rename(path / "policies" / "p0")
    (path / "policies" / "t").rename(path / "policies" / "p1")
    assert [each.component for each in verify_checkpoint(path).findings] == ["policies/p0", "policies/p1"]


def test_a_stale_array_file(tmp_path: Path) -> None:
    path = written(tmp_path, "hdf5")
    shutil.copy(path / "policies" / "p1" / "state.h5", path / "policies" / "p0" / "state.h5")
    assert {each.component for each in verify_checkpoint(path).findings} == {"policies/p0"}


def test_an_unlisted_component_is_a_note(tmp_path: Path) -> None:
    path = written(tmp_path, "hdf5")
    shutil.copytree(path / "policies" / "p1", path / "policies" / "guest")
    report = verify_checkpoint(path)
    assert report.ok
    assert report.notes == ("policies/guest is not listed, and was ignored",)


def test_a_half_written_checkpoint_is_a_finding(tmp_path: Path) -> None:
    path = written(tmp_path, "hdf5")
    (path / "manifest.json").unlink()
    assert not verify_checkpoint(path).ok


@pytest.mark.parametrize("name", ["nothing", "empty", "file"])
def test_what_is_no_checkpoint_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointNotFoundError):
        verify_checkpoint(tmp_path / name)
