"""What the project's own files promise each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import rlpipe

ROOT = Path(rlpipe.__file__).parents[1]
PROJECT = ROOT / "pyproject.toml"
INSTALL = "python -m pip install -c constraints.txt -e '.[test]'"

if not PROJECT.exists():
    pytest.skip("rlpipe is installed without its repository", allow_module_level=True)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_is_pinned_for_tests() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    names = {normal(found[0]) for text in wanted if (found := re.match(r"[\w.-]+", text))}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {normal(line.split("==")[0]) for line in lines if "==" in line}
    assert names - pinned == set()


def test_pins_name_no_build_of_one_machine() -> None:
    assert "+" not in (ROOT / "constraints.txt").read_text()


@pytest.mark.parametrize("file", ["README.md", ".ci/run"])
def test_people_and_checks_install_the_same(file: str) -> None:
    assert INSTALL in (ROOT / file).read_text()
    assert "python -m pytest" in (ROOT / file).read_text()


def test_every_ignored_lint_rule_has_a_reason() -> None:
    text = PROJECT.read_text()
    bare = re.findall(r'^    "[A-Z]+\d*",? *$', text, flags=re.MULTILINE)
    assert bare == []


def test_processes_of_tests_leave_no_file_in_the_tree() -> None:
    """Where Python keeps what it compiles is told by a variable, which a process gets with all others or not at all."""
    own = re.compile(r"\benv\w* ?= ?\{(?!\*\*os\.environ)[^}]*PYTHONPATH")
    files = [file for file in (ROOT / "tests").rglob("*.py") if own.search(file.read_text(encoding="utf-8"))]
    assert files == []
