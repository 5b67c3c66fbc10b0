"""The command on a server that speaks S3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpipe.sample import sample_path
from tests.conformance.store_suite import secrets
from tests.conformance.stores import S3Server, Store, s3_server

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "run 1/lr=1,seed=2/100%/#ü"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Store:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    store = Store("s3://models", server.requests)
    if not store.files.exists("models"):
        store.files.mkdir("models")
    return store


def rlpipe(*words: str, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-m", "rlpipe", *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_there_and_back(bucket: Store, server: S3Server, tmp_path: Path) -> None:
    url = f"s3://models/{FOLDER}/a"
    done = rlpipe(
        *("task=save", f"source.path={sample_path()}", f"checkpoint.path={url}", "checkpoint.step=3"),
        cwd=tmp_path,
        environment=server.environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"written: {url}" in done.stdout
    root = bucket.files.cat_file(f"models/{FOLDER}/a/manifest.json").decode()
    overrides = json.loads(root)["origin"]["provenance"]["overrides"]
    assert "checkpoint.path='a'" in overrides
    assert not [word for word in ("s3://", FOLDER, *secrets(server.environment)) if word in root]
    for words in (["info", url], ["verify", url], ["diff", url, str(sample_path())]):
        done = rlpipe(*words, cwd=tmp_path, environment=server.environment)
        assert (done.returncode, done.stderr) == (0, ""), words
    done = rlpipe(
        *("task=restore", f"source.path=s3://models/{FOLDER}", "source.which=3", "policy_ids=[p1]"),
        cwd=tmp_path,
        environment=server.environment,
    )
    assert done.returncode == 0, done.stderr
    assert f"source: {url} (checkpoint)" in done.stdout


@pytest.mark.slow
def test_a_store_that_does_not_answer(tmp_path: Path, server: S3Server) -> None:
    closed = {**server.environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}
    done = rlpipe("task=info", "source.path=s3://models/x", cwd=tmp_path, environment=closed)
    assert done.returncode == 1
    assert "s3://models/x/manifest.json cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [word for word in secrets(server.environment) if word in done.stderr]
    (result,) = tmp_path.glob("outputs/**/result.json")
    assert json.loads(result.read_text())["error"]["type"] == "StoreError"
