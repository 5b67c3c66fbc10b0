from __future__ import annotations

from pathlib import Path

import pytest

from rlpipe.config import conf
from rlpipe.errors import ConfigError


def test_the_shipped_folder_is_absolute_and_holds_the_config() -> None:
    directory = conf.shipped_directory()
    assert directory.is_absolute()
    assert (directory / "config.yaml").is_file()


def test_groups_and_options_are_read_from_the_folders(tmp_path: Path) -> None:
    (tmp_path / "module" / "deep").mkdir(parents=True)
    (tmp_path / "module" / "deep" / "mine.yaml").write_text("{}")
    directories = [conf.shipped_directory(), tmp_path]
    assert "module" in conf.groups(directories)
    assert {"ppo", "deep/mine"} <= set(conf.options("module", directories))


@pytest.mark.parametrize("value", ["", None])
def test_no_folder_of_ones_own(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLPIPE_CONF", raising=False)
    if value is not None:
        monkeypatch.setenv("RLPIPE_CONF", value)
    assert conf.own_directory() is None


def test_a_missing_folder_of_ones_own_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLPIPE_CONF", str(tmp_path / "no"))
    with pytest.raises(ConfigError, match="RLPIPE_CONF"):
        conf.own_directory()


def test_options_that_are_never_read_are_found(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    for name in ("save", "mine"):
        (tmp_path / "task" / f"{name}.yaml").write_text("{}")
    assert conf.shadowed(tmp_path, conf.shipped_directory()) == ("task/save",)
