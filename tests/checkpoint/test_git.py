"""A checkpoint that went through git, which may have rewritten line endings."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rlpipe.checkpoint.authenticity import sha256_of
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import diff
from tests.checkpoint.components import tree

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        folder.mkdir()
        self("init", "--quiet")
        for name, value in (
            ("core.autocrlf", "true"),
            ("core.safecrlf", "false"),
            ("user.name", "a"),
            ("user.email", "b"),
        ):
            self("config", name, value)

    def __call__(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.folder, env=self.environment, check=True, capture_output=True)


@pytest.mark.parametrize("backend", ["hdf5", "pickle"])
def test_with_line_endings_of_windows(tmp_path: Path, backend: str) -> None:
    repository = Repository(tmp_path / "repository")
    path = write_checkpoint(
        tree(2), repository.folder / "ckpt", backend=backend, attachments={"policies/p1": texts(tmp_path)}
    )
    repository("add", "--all")
    repository("commit", "--quiet", "--message", "a checkpoint")
    shutil.rmtree(path)
    repository("checkout", "--quiet", "--", ".")
    assert all(b"\r\n" in each.read_bytes() for each in path.rglob("manifest.json"))
    assert (path / "policies" / "p1" / "model" / "model.c").read_bytes() == b"int\r\nx;\r\n"
    assert verify_checkpoint(path).ok
    assert diff(tree(2), read_checkpoint(path)).same


def texts(folder: Path) -> Path:
    """A text to attach, and bytes that are none."""
    (folder / "files").mkdir()
    (folder / "files" / "model.c").write_bytes(b"int\nx;\n")
    (folder / "files" / "model.bin").write_bytes(b"\0\n" * 9)
    return folder / "files"


def test_a_text_with_other_changes_than_line_endings(tmp_path: Path) -> None:
    path = write_checkpoint(tree(2), tmp_path / "ckpt", attachments={"policies": texts(tmp_path)})
    file = path / "policies" / "model" / "model.c"
    for text in (b"int\r\ny;\r\n", b"int\r\nx;\n\r", b"int\r\r\nx;\n", b"int\rx;\r"):
        file.write_bytes(text)
        assert [each.file for each in verify_checkpoint(path).findings] == ["model/model.c"], text
    file.write_bytes(b"int\nx;\n")
    (path / "policies" / "model" / "model.bin").write_bytes(b"\0\r\n" * 9)
    assert [each.file for each in verify_checkpoint(path).findings] == ["model/model.bin"]


@pytest.mark.parametrize("backend", ["hdf5", "pickle"])
def test_one_number_for_all_of_it_stays_after_line_endings_of_windows(tmp_path: Path, backend: str) -> None:
    path = write_checkpoint(tree(2), tmp_path / "ckpt", backend=backend)
    known = sha256_of(path)
    for file in path.rglob("manifest.json"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert sha256_of(path) == known


@pytest.mark.parametrize("backend", ["hdf5", "pickle"])
def test_equal_policies_are_stored_once(tmp_path: Path, backend: str) -> None:
    """Equal state means equal bytes, so that git, git-LFS and hard links keep one copy."""
    repository = Repository(tmp_path / "repository")
    for name in ("one", "two"):
        write_checkpoint(tree(2), repository.folder / name, backend=backend)
    repository("add", "--all")
    ours, theirs = (sorted((repository.folder / name / "policies").rglob("*")) for name in ("one", "two"))
    files = [(one.read_bytes(), two.read_bytes()) for one, two in zip(ours, theirs, strict=True) if one.is_file()]
    assert len(files) == 5
    assert all(one == two for one, two in files)
