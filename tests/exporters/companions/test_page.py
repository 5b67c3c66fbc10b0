"""The page of a folder: its tables are whole, and its levels say what was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlpipe.exporters.companions.page import page
from tests.exporters.folders import folder_of
from tests.exporters.memory_graphs import lstm, masked_choices


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = folder_of(lstm(), tmp_path_factory.mktemp("made") / "p1", "numpy", "c99")
    found: dict[str, Any] = json.loads((folder / "artifact.json").read_text())
    return found


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif found[-1]:
            found.append([])
    return [one for one in found if one]


def test_every_table_is_whole(record: dict[str, Any]) -> None:
    found = tables(page(record))
    assert len(found) >= 7
    for one in found:
        assert len({len(row) for row in one}) == 1, one
        assert len(one) > 2


def test_a_memory_has_its_drift_and_its_rule(record: dict[str, Any]) -> None:
    text = page(record)
    run = text.split("### Steps in a row")[1]
    (row,) = [line for line in run.splitlines() if line.startswith("| numpy | 200 x 8 |")][:1]
    drift = record["targets"]["numpy"]["verification"]["episodes"]["drift"]
    assert " | ".join(f"{value:.1e}" if value else "0" for value in drift) in row
    assert "- `episode_start`: true at the first step of every episode" in text
    assert "- `state.<i>`: what the policy remembers; zeros before the first step" in text
    assert "| any memory at an episode start | answers as if it were zeros |" in text


def test_the_errors_of_each_output_are_told(record: dict[str, Any]) -> None:
    numbers = page(record).split("### L1 numbers")[1].split("###")[0]
    assert "| target | steps | `action` | `state.0.next` | `state.1.next` | ties |" in numbers
    assert "96 corners, 160 samples, 256 scales, in batches of 1, 2, 7, 33, 256" in numbers


def test_masks_and_noise_are_explained(tmp_path: Path) -> None:
    folder = folder_of(masked_choices(), tmp_path / "p1", "numpy")
    text = (folder / "REPORT.md").read_text()
    assert "Where nothing of a part is allowed, all of it is." in text
    assert "uniform between 0 and 1" in text
    assert "Steps in a row" not in text


def test_what_gives_no_number_has_a_dash(record: dict[str, Any]) -> None:
    """A target that gave NaN, as `artifact.json` keeps it."""
    broken = json.loads(json.dumps(record))
    broken["targets"]["numpy"]["verification"].update(max_error=None, errors={"action": None})
    broken["targets"]["numpy"]["status"] = "mismatch"
    assert "| numpy | mismatch |" in page(broken)
