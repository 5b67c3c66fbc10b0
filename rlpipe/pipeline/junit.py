"""Checks as JUnit XML, which build servers show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from rlpipe.checkpoint.refusals import reason
from rlpipe.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Case:
    """One check.

    Attributes:
        name: What was checked.
        failure: What is wrong with it, or "".
        detail: What was done, in words.
    """

    name: str
    failure: str
    detail: str


def write_junit(path: Path, suite: str, cases: Sequence[Case], *, seconds: float) -> None:
    """Write one suite.

    Raises:
        ConfigError: The system refuses the file.
    """
    failures = sum(bool(case.failure) for case in cases)
    facts = {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "time": f"{seconds:.3f}"}
    root = ET.Element("testsuite", {"name": suite, **facts})
    for case in cases:
        made = ET.SubElement(root, "testcase", classname="rlpipe.verify", name=case.name)
        if case.failure:
            ET.SubElement(made, "failure", message=case.failure).text = case.detail
        elif case.detail:
            ET.SubElement(made, "system-out").text = case.detail
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise ConfigError(
            f"verify.junit={path} cannot be written", expected="a file that can be written", found=reason(error)
        ) from error
