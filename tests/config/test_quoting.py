"""Paths survive the way through Hydra's grammar: what is typed is what the config holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from rlpipe.config.quoting import mend_path_override, path_override

UGLY = [
    "plain",
    "dir/model.zip",
    "with space/a b.zip",
    "PPO_lr=1e-3,seed=5000",
    "[brackets]",
    "(round) {curly}",
    "100%",
    "a#b",
    "größe/模型",
    "it's",
    'say "hi"',
    "both ' and \"",
    "back\\slash",
    "ends in backslash\\",
    "quote after backslash \\' here",
    "1e3",
    "true",
    "007",
    "-1",
    "a:b",
    "colon: space",
    "dollar$",
    "${not closed",
    "@at|pipe?*",
    "semi;colon&and",
    " leading",
    "trailing ",
    "tab\there",
    "line\nbreak",
    "~notauser",
    "a" * 240,
]


def read_back(override: str) -> object:
    """The value that a job's config holds, by Hydra's own parser and OmegaConf."""
    parsed = OverridesParser.create().parse_override(override)
    assert not parsed.is_sweep_override()
    return OmegaConf.create({"path": parsed.value()}).path


@pytest.mark.parametrize("path", UGLY)
def test_a_path_that_does_not_exist_is_read_as_typed(path: str) -> None:
    assert read_back(mend_path_override(f"checkpoint.path={path}", sweep=False)) == path


@pytest.mark.parametrize("path", [*UGLY, "a,b", "${oc.env:HOME}", "choice(a,b)", "'quoted'", "esc\\,aped", "\\${x}"])
def test_a_path_that_exists_is_read_as_typed(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(path).mkdir(parents=True)
    for sweep in (False, True):
        assert read_back(mend_path_override(f"+source.path={path}", sweep=sweep)) == path


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30))
def test_any_text_is_quoted_so_that_it_is_read_as_it_is(path: str) -> None:
    if not path.startswith("~"):
        assert read_back(path_override("source.path", path)) == path


@pytest.mark.parametrize("key", ["source.path", "++base.path", "source.normalizer", "checkpoints_dir", "hydra.run.dir"])
def test_home_is_expanded(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/one two")
    assert read_back(mend_path_override(f"{key}=~/x=1", sweep=False)) == "/home/one two/x=1"


@pytest.mark.parametrize(
    "override",
    [
        "source.path=null",
        "source.path=",
        "source.path='my own quotes, kept'",
        "checkpoint.path=outputs/${task.name}",
        "hydra.run.dir=runs/${now:%Y}-${task.name}",
        "source.path=esc\\,aped",
        "env=ALE/Pong-v5",
        "rename={a: b}",
    ],
)
def test_what_hydra_understands_is_left_alone(override: str) -> None:
    assert mend_path_override(override, sweep=False) == override


def test_an_interpolation_survives_the_quotes() -> None:
    mended = mend_path_override("checkpoint.path=my out/${name}, really", sweep=False)
    value = OverridesParser.create().parse_override(mended).value()
    assert OmegaConf.create({"name": "x", "path": value}).path == "my out/x, really"


def swept(override: str) -> list[object]:
    parsed = OverridesParser.create().parse_override(mend_path_override(override, sweep=True))
    assert parsed.is_sweep_override()
    return [getattr(choice, "text", choice) for choice in parsed.sweep_iterator()]


def test_a_sweep_over_paths_is_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    assert swept("source.path=~/a,b c,x=1,'d,e'") == ["/h/a", "b c", "x=1", "d,e"]


def test_a_sweep_made_by_a_function_is_left_alone() -> None:
    assert swept("source.path=choice(a,b)") == ["a", "b"]


def test_choices_that_all_exist_win_over_one_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "a,b"):
        Path(name).mkdir()
    assert swept("source.path=a,b") == ["a", "b"]
