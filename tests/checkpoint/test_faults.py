"""Whatever call of a save fails, and wherever it is killed: the old or the new checkpoint, whole, and no litter."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.scenarios import SCENARIOS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="replaces and kills by means of Linux")

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one, as a campaign brings thousands of files to the disk."""
    place = Path(tempfile.mkdtemp(dir="/dev/shm")) if os.access("/dev/shm", os.W_OK) else tmp_path
    yield place
    shutil.rmtree(place)


def campaign(mode: str, scenario: str, place: Path, *, at_most: int = 10_000, within: tuple[str, ...] = ()) -> Any:
    program = (*within, sys.executable, "-m", "tests.checkpoint.faults")
    command = [*program, mode, scenario, str(place), "2026", str(at_most)]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_failure_anywhere_and_a_kill_at_some_calls(memory: Path, scenario: str) -> None:
    found = campaign("both", scenario, memory, at_most=12)
    assert found["errors"] == 3 * sum(found["calls"].values()) >= 42
    assert found["kills"] == 12


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_kill_at_every_call(tmp_path: Path, scenario: str) -> None:
    found = campaign("kills", scenario, tmp_path)
    assert found["kills"] == 2 * sum(found["calls"].values())


@pytest.mark.parametrize(
    ("scenario", "directories", "files"), [("new", 3, 4), ("replacing", 3, 4), ("attachments", 5, 8)]
)
def test_what_a_durable_save_brings_to_the_disk(memory: Path, scenario: str, directories: int, files: int) -> None:
    """Every file, every directory, and the name of the whole."""
    calls = campaign("kills", scenario, memory, at_most=0)["calls"]
    assert (calls["mkdir"], calls["open"] + calls.get("link", 0)) == (directories, files)
    assert calls["fsync"] == directories + files + 1


def test_a_save_that_is_not_durable_waits_for_nothing(memory: Path) -> None:
    calls = campaign("kills", "without fsync", memory, at_most=0)["calls"]
    assert not {"fsync", "fdatasync", "sync_file_range"} & calls.keys()


@pytest.mark.skipif(shutil.which("strace") is None, reason="counts with strace")
def test_the_campaign_sees_every_call(memory: Path) -> None:
    """What the kernel is asked for while nothing fails is what the campaign counts."""
    log = memory / "strace.log"
    watched = "write,pwrite64,writev,pwritev,fsync,fdatasync,mkdir,mkdirat,rename,renameat,renameat2,link,linkat"
    within = ("strace", "-f", "-qq", "-y", "-o", str(log), "-e", f"trace={watched}")
    (memory / "place").mkdir()
    calls = campaign("kills", "new", memory / "place", at_most=0, within=within)["calls"]
    lines = [line for line in log.read_text().splitlines() if "/trial" in line]
    kinds = [re.sub(r"^\d+ +|(at|at2|64)?\(.*", "", line) for line in lines]
    # The directory of the trial itself is made by the campaign, before it counts.
    assert kinds.count("mkdir") == calls["mkdir"] + 1
    for kind in ("write", "fsync", "rename"):
        assert kinds.count(kind) == calls[kind], kind
