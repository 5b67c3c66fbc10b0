"""What is loaded when: heavy packages only where they are needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rlpipe

ROOT = Path(rlpipe.__file__).parent
HEAVY = {"torch", "hydra", "omegaconf", "h5py", "gymnasium", "onnx", "onnxruntime", "onnxscript", "stable_baselines3"}
COMMANDS = {
    "help": ["--help"],
    "config": ["--cfg", "job"],
    "config of export": ["--cfg", "job", "task=export", "policy_ids=[p1]"],
    "info": ["task=info"],
    "verify": ["task=verify"],
    "diff": [
        "task=diff",
        f"source.path={ROOT / 'sample' / 'checkpoint'}",
        f"base.path={ROOT / 'sample' / 'checkpoint'}",
    ],
}
RUN = """
import contextlib, io, sys
from rlpipe.app import main
with contextlib.redirect_stdout(io.StringIO()):
    try:
        code = main(sys.argv[1:])
    except SystemExit as stop:
        code = stop.code
assert not code, code
"""


def fresh(code: str, *words: str, cwd: Path) -> list[str]:
    """The packages that a new interpreter has loaded after the code, in another folder."""
    code += "\nimport sys\nprint(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def modules_of(*rooms: str) -> list[str]:
    """Every module of the rooms, by dotted name."""
    files = [path for room in rooms for path in [ROOT / f"{room}.py", *(ROOT / room).rglob("*.py")] if path.exists()]
    names = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in files]
    return [name.removesuffix(".__init__") for name in names]


def test_the_package_alone_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = set(fresh("import rlpipe", cwd=tmp_path))
    assert loaded & (HEAVY | {"numpy"}) == set()


@pytest.mark.parametrize(
    ("rooms", "allowed"),
    [
        (("errors", "snapshot"), set()),
        (("backends", "checkpoint"), {"h5py"}),
        (("config", "app", "__main__"), {"hydra", "omegaconf"}),
    ],
    ids=["pure", "store", "entry"],
)
def test_rooms_that_load_nothing_heavy(rooms: tuple[str, ...], allowed: set[str], tmp_path: Path) -> None:
    names = modules_of(*rooms)
    assert len(names) >= len(rooms)
    loaded = set(fresh("\n".join(f"import {name}" for name in names), cwd=tmp_path))
    assert loaded & HEAVY <= allowed


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_commands_that_never_load_torch(words: list[str], tmp_path: Path) -> None:
    loaded = set(fresh(RUN, *words, cwd=tmp_path))
    assert loaded & {"torch", "gymnasium", "onnx", "onnxruntime", "stable_baselines3"} == set()


@pytest.mark.slow
def test_help_takes_under_two_seconds(tmp_path: Path) -> None:
    def seconds() -> float:
        # Of the processor: what else the machine does at the moment is nothing to this program.
        before, _, after = os.times(), fresh(RUN, "--help", cwd=tmp_path), os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(3)) < 2
