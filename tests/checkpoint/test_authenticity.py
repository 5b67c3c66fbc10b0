"""The number that says that a checkpoint is the very one that was meant."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rlpipe.checkpoint.authenticity import sha256_of
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import ConfigError, IntegrityError
from tests.checkpoint.components import policy, tree


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_checkpoint(tree(2), tmp_path / "ckpt")


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="there is no sha256sum")
@pytest.mark.parametrize("backend", ["hdf5", "pickle"])
def test_it_is_what_the_command_gives(tmp_path: Path, backend: str) -> None:
    path = write_checkpoint(tree(2), tmp_path / "ckpt", backend=backend)
    command = r"find * -type f | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum"
    done = subprocess.run(["/bin/bash", "-c", command], cwd=path, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == sha256_of(path)


def test_copies_agree_wherever_they_lie(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "other" / "name")
    for manifest in (tmp_path / "other").rglob("manifest.json"):
        manifest.write_bytes(manifest.read_bytes().replace(b"\n", b"\r\n"))
    (tmp_path / "other" / "name" / "notes.txt").write_text("not part of it")
    assert sha256_of(tmp_path / "other" / "name") == sha256_of(path)


def test_a_component_has_its_own_and_equal_ones_agree(path: Path, tmp_path: Path) -> None:
    lone = shutil.copytree(path / "policies" / "p1", tmp_path / "lone")
    assert sha256_of(lone) == sha256_of(path / "policies" / "p1") != sha256_of(path / "policies" / "p0")


def test_two_saves_do_not_agree(path: Path, tmp_path: Path) -> None:
    assert sha256_of(write_checkpoint(tree(2), tmp_path / "again")) != sha256_of(path)


def test_verify_compares_it(path: Path) -> None:
    known = sha256_of(path)
    assert verify_checkpoint(path, sha256=known).ok
    assert verify_checkpoint(path, sha256=f" {known.upper()}\n").ok
    report = verify_checkpoint(path, sha256="0" * 64)
    assert [str(each) for each in report.findings] == [
        f"manifest.json: this is another checkpoint: SHA-256 {known}, expected {'0' * 64}"
    ]


def test_a_whole_forgery_is_found_by_it_alone(path: Path, tmp_path: Path) -> None:
    known = sha256_of(path)
    forged = read_checkpoint(path)
    weights = forged.children["policies"].children["p0"].state["encoder"]["0"]
    weights["weight"] = np.zeros_like(weights["weight"])
    write_checkpoint(forged, path, if_exists="replace")
    assert verify_checkpoint(path).ok
    assert not verify_checkpoint(path, sha256=known).ok


@pytest.mark.parametrize("value", ["", "0" * 63, "g" * 64, "sha256:" + "0" * 64])
def test_what_is_no_value_is_an_error(path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="no SHA-256"):
        verify_checkpoint(path, sha256=value)


def test_damage_is_an_error_or_a_finding(path: Path) -> None:
    known = sha256_of(path)
    (path / "policies" / "p1" / "state.h5").unlink()
    with pytest.raises(IntegrityError, match=r"state\.h5"):
        sha256_of(path)
    findings = verify_checkpoint(path, sha256=known).findings
    assert [each.component for each in findings] == ["policies/p1"]


def test_a_policy_without_arrays(tmp_path: Path) -> None:
    path = write_checkpoint(policy(0), tmp_path / "ckpt")
    assert len(sha256_of(path)) == 64
