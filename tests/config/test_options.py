from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from rlpipe.config.findings import Findings
from rlpipe.config.options import read_options
from rlpipe.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Options:
    atol: float = 1e-5
    opset: int = 18
    name: str | None = None
    mode: Literal["a", "b"] = "a"
    fast: bool = False
    shapes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.atol < 0:
            raise ConfigError("atol", expected="0 or more", found=str(self.atol), fix="atol=0")


@dataclass(frozen=True)
class Needy:
    file: str


LIST = "atol, fast, mode, name, opset, shapes"


def read(value: dict[str, Any], cls: type = Options) -> tuple[Any, list[str]]:
    findings = Findings()
    options = read_options("export.x", value, cls, findings)
    return options, [finding.line() for finding in findings.found]


def test_values_become_the_dataclass() -> None:
    given = {"atol": 1, "opset": 17, "name": "n", "mode": "b", "fast": True, "shapes": [1, 2]}
    assert read(given) == (Options(atol=1, opset=17, name="n", mode="b", fast=True, shapes=(1, 2)), [])


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (
            {"atoll": 1},
            (
                f"export.x.atoll: expected one of {LIST}; found an option that does not exist; "
                "fix: did you mean export.x.atol?"
            ),
        ),
        (
            {"atol": "small"},
            "export.x.atol: expected a number; found the text 'small'; fix: write a number, such as export.x.atol=1",
        ),
        (
            {"atol": True},
            (
                "export.x.atol: expected a number; found the truth value True; "
                "fix: write a number, such as export.x.atol=1"
            ),
        ),
        (
            {"opset": 1.5},
            (
                "export.x.opset: expected a whole number; found the number 1.5; "
                "fix: write a number, such as export.x.opset=1"
            ),
        ),
        ({"mode": "c"}, "export.x.mode: expected one of a, b; found the text 'c'; fix: write export.x.mode=a"),
        (
            {"name": 3},
            (
                "export.x.name: expected a text or null; found the number 3; "
                "fix: if it is a name, quote it as it is spelt: 'export.x.name=\"3\"'"
            ),
        ),
        (
            {"fast": None},
            "export.x.fast: expected true or false; found null; fix: write export.x.fast=true or export.x.fast=false",
        ),
        (
            {"shapes": ["a"]},
            (
                "export.x.shapes: expected a list of a whole number; found the list ['a']; "
                "fix: write a list: 'export.x.shapes=[...]'"
            ),
        ),
        ({"atol": -1}, "atol: expected 0 or more; found -1; fix: atol=0"),
    ],
)
def test_a_fault_is_one_line(value: dict[str, Any], line: str) -> None:
    assert read(value) == (None, [line])


def test_a_missing_option_without_default_is_named() -> None:
    line = "export.x.file: expected a text; found nothing; fix: give export.x.file=..."
    assert read({}, Needy) == (None, [line])
