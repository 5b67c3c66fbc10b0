"""Workers: what ends one of them ends nothing else, and leaves nothing half-written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rlpipe.exporters.export import Candidate, Order, export_policies
from rlpipe.exporters.targets import onnx, torch_export
from rlpipe.exporters.worker_pool import WorkerPool
from rlpipe.snapshot.snapshot import Snapshot
from tests.exporters import networks
from tests.exporters.test_export import own_network

TRUST = ("tests.*",)
ONNX = {"onnx": onnx.Options()}


@pytest.fixture(scope="module")
def plain() -> Snapshot:
    return own_network(networks.Plain)


def order(out_dir: Path, **changes: object) -> Order:
    return Order(**{"targets": ONNX, "out_dir": out_dir, "trust": TRUST, **changes})  # type: ignore[arg-type]


def test_a_policy_that_kills_its_process_stops_no_other(plain: Snapshot, tmp_path: Path) -> None:
    killer = Candidate(policy_id="a", snapshot=own_network(networks.KillsItsProcess))
    with WorkerPool() as pool:
        dead, alive = export_policies([killer, Candidate(policy_id="b", snapshot=plain)], order(tmp_path), pool=pool)
    assert (dead.rows[0].status, alive.rows[0].status) == ("failed", "ok")
    assert "the process that exported died: signal SIGKILL" in dead.rows[0].message
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_what_ends_its_process_while_it_is_prepared_is_tried_once(plain: Snapshot, tmp_path: Path) -> None:
    killer = Candidate(policy_id="a", snapshot=own_network(networks.KillsItsProcess))
    both = {**ONNX, "torch_export": torch_export.Options()}
    with WorkerPool() as pool:
        dead, alive = export_policies(
            [killer, Candidate(policy_id="b", snapshot=plain)], order(tmp_path, targets=both), pool=pool
        )
    assert [row.status for row in dead.rows] == ["failed", "skipped"]
    assert "not tried, since preparing this policy for onnx ended the process" in dead.rows[1].message
    assert not dead.ok
    assert alive.ok


def test_a_target_with_more_time_is_tried_all_the_same(plain: Snapshot, tmp_path: Path) -> None:
    targets = {"onnx": onnx.Options(timeout=0.01), "torch_export": torch_export.Options()}
    with WorkerPool() as pool:
        (report,) = export_policies(
            [Candidate(policy_id="a", snapshot=plain)], order(tmp_path, targets=targets), pool=pool
        )
    assert [row.status for row in report.rows] == ["failed", "ok"]


def test_a_policy_that_hangs_is_ended(plain: Snapshot, tmp_path: Path) -> None:
    hanging = Candidate(policy_id="a", snapshot=own_network(networks.Hangs))
    short = {"onnx": onnx.Options(timeout=8.0)}
    started = time.monotonic()
    with WorkerPool() as pool:
        (report,) = export_policies([hanging], order(tmp_path, targets=short), pool=pool)
        assert time.monotonic() - started < 60
        assert report.rows[0].status == "failed"
        assert "took longer than 8 s" in report.rows[0].message
        assert list(tmp_path.iterdir()) == []
        (after,) = export_policies([Candidate(policy_id="b", snapshot=plain)], order(tmp_path), pool=pool)
    assert after.ok


def test_a_worker_is_kept_for_the_next_policy(plain: Snapshot, tmp_path: Path) -> None:
    candidates = [Candidate(policy_id=name, snapshot=plain) for name in ("a", "b", "c")]
    with WorkerPool() as pool:
        assert all(report.ok for report in export_policies(candidates, order(tmp_path), pool=pool))
        assert {target: len(idle) for target, idle in pool._idle.items()} == {"onnx": 1}


@pytest.mark.slow
def test_two_at_a_time(plain: Snapshot, tmp_path: Path) -> None:
    candidates = [Candidate(policy_id=name, snapshot=plain) for name in ("a", "b", "c")]
    both = {**ONNX, "torch_export": torch_export.Options()}
    reports = export_policies(candidates, order(tmp_path, targets=both, jobs=2))
    assert [report.policy_id for report in reports] == ["a", "b", "c"]
    assert all([row.target for row in report.rows] == ["onnx", "torch_export"] and report.ok for report in reports)
    files = [(tmp_path / name / "onnx/policy.onnx").read_bytes() for name in ("a", "b", "c")]
    assert files[0] == files[1] == files[2]


def test_workers_are_gone_at_the_end(plain: Snapshot, tmp_path: Path) -> None:
    with WorkerPool() as pool:
        export_policies([Candidate(policy_id="a", snapshot=plain)], order(tmp_path), pool=pool)
        (worker,) = pool._idle["onnx"]
        assert worker.alive
    assert not worker.alive
    assert worker._process.returncode is not None
