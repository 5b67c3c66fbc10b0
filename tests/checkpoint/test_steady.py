"""Readers beside a writer, and where nothing can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.place import Place
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.steady import steadily
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointError, IntegrityError
from rlpipe.snapshot import content_hash
from tests.checkpoint.components import policy, tree

_REPLACE = """
import sys
from pathlib import Path
from rlpipe.checkpoint import swap, writer
from tests.checkpoint.components import tree
if sys.argv[2] == "two renames":
    swap._renameat2 = lambda: None
print("ready", flush=True)
for count in iter(int, 1):
    for size in (2, 3):
        writer.write_checkpoint(tree(size), Path(sys.argv[1]), if_exists="replace")
"""

_READ_ONLY = """
import os, sys
from pathlib import Path
opened = []
def note(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        opened.append(arguments[0])
    if event.startswith(("fcntl.", "os.mkdir", "os.rename", "os.remove")):
        opened.append(event)
from rlpipe.checkpoint import choose, inspect, reader, verify
from rlpipe.backends import array_reader
path = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setuid(65534)
try:
    (path / "x").write_text("")
    raise SystemExit("it can be written")
except OSError:
    pass
sys.addaudithook(note)
assert reader.read_checkpoint(path).children
assert verify.verify_checkpoint(path).ok
assert inspect.inspect_checkpoint(path).children
assert choose.latest(path.parent).checkpoint.path == path
assert not opened, opened
"""

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user can reach."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_readers_see_the_old_or_the_new_one_whole(tmp_path: Path, way: str) -> None:
    path = tmp_path / "ckpt"
    write_checkpoint(tree(2), path)
    whole = {content_hash(tree(size)) for size in (2, 3)}
    seen: set[str] = set()
    command = [sys.executable, "-c", _REPLACE, str(path), way]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            end = time.monotonic() + 3
            while time.monotonic() < end or (len(seen) < 2 and time.monotonic() < end + 30):
                seen.add(content_hash(read_checkpoint(path)))
                seen.add(inspect_checkpoint(path).content_hash)
                assert verify_checkpoint(path).ok
            assert writer.poll() is None
        finally:
            writer.kill()
    assert seen == whole


def test_damage_that_stays_is_an_error(tmp_path: Path) -> None:
    write_checkpoint(policy(0), tmp_path / "x")
    (tmp_path / "x" / "state.h5").write_bytes(b"short")
    reads: list[Place] = []

    def read(directory: Place) -> None:
        reads.append(directory)
        raise IntegrityError("damaged")

    with pytest.raises(IntegrityError):
        steadily(tmp_path / "x", read)
    assert len(reads) == 2
    with pytest.raises(CheckpointError):
        read_checkpoint(tmp_path / "x")
    assert not verify_checkpoint(tmp_path / "x").ok


def test_damage_is_looked_at_again_after_a_replacement(tmp_path: Path) -> None:
    write_checkpoint(policy(0), tmp_path / "x")
    reads: list[int] = []

    def read(directory: Place) -> int:
        reads.append(len(reads))
        if len(reads) < 20:
            write_checkpoint(policy(len(reads)), directory, if_exists="replace")
            raise IntegrityError("files of two checkpoints")
        return len(reads)

    assert steadily(tmp_path / "x", read) == 20


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="becomes another user")
@pytest.mark.parametrize("backend", ["hdf5", "pickle"])
def test_where_nothing_can_be_written(public: Path, backend: str) -> None:
    path = public / "ckpt"
    write_checkpoint(tree(2), path, backend=backend)
    for each in (*path.rglob("*"), path, public):
        each.chmod(0o555 if each.is_dir() else 0o444)
    run = subprocess.run(
        [sys.executable, "-c", _READ_ONLY, str(path)], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    public.chmod(0o755)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="mounts")
def test_on_a_read_only_mount(public: Path) -> None:
    path = public / "ckpt"
    write_checkpoint(tree(2), path)
    mount = f"mount --bind {public} {public} && mount -o remount,ro,bind {public}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount")
    script = f'{mount} && exec "$0" -c "$1" {path}'
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, sys.executable, _READ_ONLY],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
