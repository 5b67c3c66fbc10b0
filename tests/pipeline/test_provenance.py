from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.pipeline.provenance import git_facts, provenance, relative_paths, versions
from rlpipe.pipeline.settings import ProvenanceSettings, RunSettings
from tests.checkpoint.components import policy
from tests.conformance.stores import counted


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory in whose `runs` the run takes place."""
    (tmp_path / "runs").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path


def test_paths_in_the_working_directory_become_relative(home: Path) -> None:
    inside = home / "runs/outputs/a b"
    given = {"path": str(inside), "list": [str(inside)]}
    assert relative_paths(given) == {"path": "outputs/a b", "list": ["outputs/a b"]}
    assert relative_paths("~/runs/x") == "x"


def test_other_paths_become_a_name_with_a_content_hash(home: Path) -> None:
    (home / "model.zip").write_bytes(b"content")
    found = relative_paths(str(home / "model.zip"))
    assert found == "model.zip@sha256:ed7002b439e9"
    assert relative_paths("../model.zip") == found
    assert relative_paths("~/model.zip") == found
    assert relative_paths("/no/such/place") == "place"
    assert relative_paths(r"C:\Users\alice\model.zip") == "model.zip"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("task=save", "task=save"),
        ("source.path={home}/model.zip", "source.path=model.zip"),
        ("'source.path={home}/a b.zip'", "'source.path=a"),
        ('source.path="{home}/a b.zip"', 'source.path="a b.zip"'),
        ("a=[{home}/x,{home}/y]", "a=[x,y]"),
        ("a={{b: {home}/x}}", "a={b: x}"),
        ("env=ALE/Pong-v5", "env=ALE/Pong-v5"),
        ("restore.device=cuda:0", "restore.device=cuda:0"),
        ("~experiment", "~experiment"),
        ("source.path=runs/lr=0.1,seed=3", "source.path=runs/lr=0.1,seed=3"),
        ("checkpoint.path='we ird=1,x[2](3)#ü%/o ut'", "checkpoint.path='we ird=1,x[2](3)#ü%/o ut'"),
        ("checkpoint.path='a, /b = /c/x'", "checkpoint.path='a, /b = /c/x'"),
        ("note=100%/a", "note=100%/a"),
        ("note='see ({home}/x)'", "note='see (x)'"),
    ],
)
def test_overrides(home: Path, override: str, expected: str) -> None:
    settings = ProvenanceSettings(overrides=(override.format(home=home),))
    (found,) = provenance(RunSettings(task="save", provenance=settings))["overrides"]
    assert found.startswith(expected)
    assert str(home) not in found


@pytest.mark.parametrize("path", ["we ird=1,x[2](3)#ü%/o ut", "a /b", "a,/b", "x=/b", "x)/y", "x;'/y\"/z"])
def test_relative_paths_stay_as_they_are(path: str, home: Path) -> None:
    for key in ("path", "normalizer", "checkpoints_dir"):
        assert relative_paths({key: path}) == {key: path}
        assert relative_paths({key: str(home / "runs" / path)}) == {key: path}
        assert relative_paths({key: str(home / path)}) == {key: Path(path).name}


@given(st.text(alphabet="abc/._- ~:=[],'\"\\", max_size=30))
def test_no_absolute_path_is_left(text: str) -> None:
    found = relative_paths(f"/home/alice/{text}")
    assert "/home" not in found
    assert not Path(found).is_absolute()


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(alphabet="ab c.:=", max_size=9),
        lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(alphabet="ab", max_size=3), part, max_size=3),
    )
)
def test_what_holds_no_path_stays_as_it_is(value: object) -> None:
    assert relative_paths(value) == value


def test_a_repository_and_none(tmp_path: Path) -> None:
    assert git_facts(tmp_path)["available"] is False

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init")
    assert git_facts(tmp_path)["available"] is False, "a repository without a commit"
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    assert git_facts(tmp_path) == {"available": True, "commit": git("rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "a").write_text("2")
    assert git_facts(tmp_path)["dirty"] is True


def test_versions_import_nothing() -> None:
    program = (
        "import sys; from rlpipe.pipeline.provenance import versions as v; print(v()['torch'], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [versions()["torch"], "False"]


def test_the_config_hash_is_of_the_recorded_config(home: Path) -> None:
    settings = ProvenanceSettings(config={"b": 1, "a": str(home / "runs/x")})
    found = provenance(RunSettings(task="save", provenance=settings))
    assert found["config"] == {"b": 1, "a": "x"}
    text = json.dumps({"a": "x", "b": 1}, sort_keys=True)
    assert found["config_sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_urls_name_no_host_user_or_bucket() -> None:
    with counted("a-bucket") as store:
        write_checkpoint(policy(1), f"{store.root}/run/ckpt")
        digest = hashlib.sha256(store.files.cat_file(store.path("run", "ckpt", "manifest.json"))).hexdigest()[:12]
        url, named = f"{store.root}/run/ckpt", f"ckpt@sha256:{digest}"
        config = {
            "source": {"path": url},
            "checkpoint": {"path": f"{store.root}/none/x"},
            "env": "see sftp://me@host/a",
        }
        overrides = (f"source.path={url}", f"+base.path='{url}'", "checkpoint.path=s3://bucket", "a=x,s3://bucket/k/v")
        recorded = provenance(
            RunSettings(task="save", provenance=ProvenanceSettings(overrides=overrides, config=config))
        )
    assert recorded["config"]["source"]["path"] == named
    assert recorded["config"]["checkpoint"]["path"] == "x"
    assert recorded["config"]["env"] == "see a"
    assert recorded["overrides"] == [f"source.path={named}", f"+base.path='{named}'", "checkpoint.path=s3", "a=x,v"]
    assert not re.search("a-bucket|me@|host|://", json.dumps(recorded))


def test_a_url_of_this_machine_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert relative_paths({"path": f"file://{tmp_path}/a"}) == {"path": "a"}
