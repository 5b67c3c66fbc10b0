from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from rlpipe.exporters.folder import complete, staging
from rlpipe.exporters.report import TargetReport
from rlpipe.exporters.verify import Verification
from tests.exporters.folders import described, folder_of
from tests.exporters.memory_graphs import sampled


def refused(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def test_a_target_that_gave_no_number_is_recorded_in_strict_json(tmp_path: Path) -> None:
    """Beside another one that was proven before."""
    example = sampled()
    place = folder_of(example, tmp_path / "p1", "numpy")
    nowhere = Verification(
        status="mismatch", max_error=float("nan"), errors={"action": float("inf")}, observations={"samples": 3}
    )
    row = TargetReport(target="torch_export", status="mismatch", message="it gives NaN", verification=nowhere)
    with staging(place) as stage:
        for name in ("golden.npz", "golden.json"):
            shutil.copyfile(place / name, stage / name)
        complete(stage, place, described(example), {"torch_export": row})
    record = json.loads((place / "artifact.json").read_text(), parse_constant=refused)
    assert record["targets"]["torch_export"]["verification"]["max_error"] is None
    assert record["targets"]["numpy"]["status"] == "ok"
    assert "| torch_export | mismatch | - | - | - |" in (place / "REPORT.md").read_text()
