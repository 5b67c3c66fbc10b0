from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.choose import latest
from rlpipe.checkpoint.place import own_name, place_of, size_of, total_size
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import ConfigError
from rlpipe.snapshot import content_hash
from tests.checkpoint.components import policy
from tests.conformance.store_suite import ODD_NAMES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("text", ["a\0b", "/tmp/\0", "file:///a\0", "~/\0", "s3://a/\0", "a\ud800b"])
def test_what_no_file_can_be_called_is_refused_in_words(text: str) -> None:
    for use in (place_of, read_checkpoint, latest, lambda path: write_checkpoint(policy(1), path)):
        with pytest.raises(ConfigError, match="no path"):
            use(text)


def test_urls_of_this_machine_are_paths(tmp_path: Path) -> None:
    assert place_of(f"file://{tmp_path}/a%20b") == tmp_path / "a%20b"
    assert place_of(f"local://{tmp_path}") == tmp_path
    assert place_of("s3://bucket/x/") == Url("s3://bucket/x")
    assert str(place_of("memory://") / "x") == "memory:///x"
    assert place_of("C://x") == Path("C:/x")
    assert place_of(Url("s3://bucket/x")) == Url("s3://bucket/x")
    assert place_of(tmp_path) == tmp_path


def test_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place_of("~/a") == tmp_path / "a"
    assert place_of("~nobody-of-this-name/a") == Path("~nobody-of-this-name/a")
    assert write_checkpoint(policy(1), "~/ckpt") == "~/ckpt"
    assert (tmp_path / "ckpt" / "manifest.json").is_file()
    assert content_hash(read_checkpoint("~/ckpt")) == content_hash(policy(1))


@pytest.mark.parametrize("way", ["absolute", "relative", "file"])
@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names(name: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = {"absolute": f"{tmp_path}/{name}", "relative": name, "file": f"file://{tmp_path}/{name}"}[way]
    write_checkpoint(policy(1), path)
    assert content_hash(read_checkpoint(path)) == content_hash(policy(1))
    assert sorted(each.name for each in (tmp_path / name).iterdir()) == ["manifest.json", "state.h5"]
    assert latest(tmp_path).checkpoint.path.name == name


def test_sizes_and_names(tmp_path: Path) -> None:
    path = write_checkpoint(policy(1), tmp_path / "ckpt")
    (tmp_path / "link").symlink_to(path.name)
    assert own_name(tmp_path / "link") == "ckpt"
    parts = [size_of(path / name) for name in ("manifest.json", "state.h5")]
    assert total_size(path) == sum(parts)


def test_local_checkpoints_need_no_fsspec(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["fsspec"] = None
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from tests.checkpoint.components import policy
write_checkpoint(policy(1), {str(tmp_path / "a")!r})
write_checkpoint(policy(1), "file://" + {str(tmp_path / "b")!r})
read_checkpoint({str(tmp_path / "b")!r})
assert verify_checkpoint({str(tmp_path / "a")!r}).ok
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, check=True)
