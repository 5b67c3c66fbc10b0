"""What the README tells people to type is what the command takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rlpipe.config import conf
from rlpipe.config.command import read

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
HELP = OmegaConf.load(conf.shipped_directory() / "config.yaml").hydra.help.template
# Behind `rlpipe` comes a flag, an override or the short form of a task.
COMMANDS = sorted(set(re.findall(r"\brlpipe ((?:--?[a-z]+|[a-z]+=\S|export )[^`\n]*)", README + HELP)))


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 20


@pytest.mark.parametrize("words", COMMANDS)
def test_a_documented_command_is_accepted(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "mine.yaml").write_text("{}")
    monkeypatch.setenv("RLPIPE_CONF", str(tmp_path))
    read(shlex.split(words))
