"""What is known of a policy's training."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpipe.importers.libraries.rllib import Options, read
from rlpipe.importers.libraries.rllib.folders import RUNNER
from rlpipe.importers.libraries.rllib.training import Training, read_training
from tests.importers.rllib_folders import GOLDEN, copied

ARGS = "env_runner/class_and_ctor_args.pkl"
NAME = b"rlpipe_choices"


@pytest.mark.parametrize(
    ("given", "env"),
    [(b"my_environment", None), (b"LongWalker-v12", "LongWalker-v12"), (b"code:LongEn-v0", None), (NAME, None)],
)
def test_an_environment_is_told_where_it_looks_like_gymnasium_s(given: bytes, env: str | None, tmp_path: Path) -> None:
    root = copied("ppo_choices", tmp_path)
    data = (root / ARGS).read_bytes()
    assert NAME in data
    (root / ARGS).write_bytes(data.replace(NAME, given.ljust(len(NAME))[: len(NAME)]))
    assert read_training(root / RUNNER).env == env
    metadata = read(root, Options()).snapshot.children["default_policy"].metadata
    assert metadata.get("env") == env


def test_steps_are_those_that_the_env_runner_counted() -> None:
    assert read_training(GOLDEN / "ppo_choices" / RUNNER) == Training(steps=40)
    assert read_training(GOLDEN / "ray_2_40" / RUNNER) == Training()


def test_an_env_runner_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    root = copied("ppo_choices", tmp_path)
    (root / ARGS).write_bytes(b"broken")
    assert read_training(root / RUNNER) == Training(steps=40)
