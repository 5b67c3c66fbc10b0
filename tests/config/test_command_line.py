from __future__ import annotations

from pathlib import Path

import pytest

from rlpipe.config import conf, keys
from rlpipe.config.command_line import Command, read_command
from rlpipe.errors import ConfigError

SHIPPED = [conf.shipped_directory()]


def read(*argv: str) -> Command:
    groups = conf.groups(SHIPPED)
    return read_command(argv, tasks=conf.options("task", SHIPPED), roots={*keys.roots(), *groups})


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("argv", "flags", "overrides"),
    [
        (["task=save", "-m", "module=ppo,sac"], ["-m"], ["task=save", "module=ppo,sac"]),
        (["task=save", "--cfg", "job", "env=x"], ["--cfg", "job"], ["task=save", "env=x"]),
        (["task=save", "--cfg=job", "--resolve"], ["--cfg=job", "--resolve"], ["task=save"]),
        (["env=x", "--config-dir", "mine", "task=info"], ["--config-dir", "mine"], ["env=x", "task=info"]),
        (["env=x", "--config-d", "mine", "task=info"], ["--config-d", "mine"], ["env=x", "task=info"]),
        (["--info", "task=save"], ["--info=all"], ["task=save"]),
        (["task=save", "-i", "defaults"], ["--info=defaults"], ["task=save"]),
        (["--help"], ["--help"], []),
        (["~trust"], [], ["~trust"]),
        (["hydra/launcher=joblib"], [], ["hydra/launcher=joblib"]),
        (["+module@algorithm.policies.p1.module=sac"], [], ["+module@algorithm.policies.p1.module=sac"]),
        (["--", "task=save"], [], ["task=save"]),
    ],
)
def test_flags_come_first(argv: list[str], flags: list[str], overrides: list[str]) -> None:
    assert read(*argv) == Command(flags=tuple(flags), overrides=tuple(overrides))


@pytest.mark.parametrize(
    ("argv", "overrides"),
    [
        (["export", "model.zip", "export=[onnx]"], ["task=export", "source.path=model.zip", "export=[onnx]"]),
        (["model.zip"], ["source.path=model.zip"]),
        (["info", "missing"], ["task=info", "source.path=missing"]),
        (["task=info", "export"], ["task=info", "source.path=export"]),
        (["diff", "a/", "b/"], ["task=diff", "source.path=a/", "base.path=b/"]),
        (["source.path=a.zip", "export"], ["source.path=a.zip", "task=export"]),
        (["info", "a b,c.zip"], ["task=info", "source.path='a b,c.zip'"]),
    ],
)
def test_short_forms(argv: list[str], overrides: list[str]) -> None:
    assert read(*argv).overrides == tuple(overrides)


def test_a_folder_that_looks_like_an_override_is_a_path() -> None:
    Path("PPO_lr=1,seed=2").mkdir()
    assert read("info", "PPO_lr=1,seed=2").overrides == ("task=info", "source.path='PPO_lr=1,seed=2'")


def test_a_key_wins_over_a_folder_of_the_same_name() -> None:
    Path("env=x").mkdir()
    assert read("env=x").overrides == ("env=x",)


def test_home_in_a_positional_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert read("~/m.zip").overrides == ("source.path=/home/me/m.zip",)


def test_a_task_named_wrong_gets_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean export") as caught:
        read("exprot", "model.zip")
    assert caught.value.exit_code == 2


def test_three_paths_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match="at most two paths"):
        read("diff", "a/", "b/", "c/")


@pytest.mark.parametrize("argv", [["-m"], ["task=x", "--multirun"]])
def test_a_sweep_is_recognised(argv: list[str]) -> None:
    assert read(*argv).is_sweep


@pytest.mark.parametrize(
    ("argv", "value"), [(["--cfg", "job"], "job"), (["--cfg=all"], "all"), (["-c", "hydra"], "hydra"), ([], None)]
)
def test_value_of_a_flag(argv: list[str], value: str | None) -> None:
    assert read(*argv).value_of("--cfg", "-c") == value
