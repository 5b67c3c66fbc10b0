"""task=subset_restore: one policy into a base, everything else as it was."""

import json
import shutil
from pathlib import Path

import pytest

from tests.acceptance.program import Run, digests, files, leaves, run_program


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    """A base like `checkpoint` whose numbers are others."""
    folder = tmp_path_factory.mktemp("other")
    run_program("task=save", "algorithm.seed=12345", "checkpoint.path=base", folder=folder).succeeded()
    assert digests(folder / "base/policies/p1") != digests(checkpoint / "policies/p1")
    return folder / "base"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    """A source whose p0 is gone and whose p2 is nonsense: neither is wanted."""
    copy = tmp_path_factory.mktemp("source") / "checkpoint"
    shutil.copytree(checkpoint, copy)
    shutil.rmtree(copy / "policies/p0")
    (copy / "policies/p2/state.h5").write_bytes(b"nonsense")
    return copy


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory, source: Path, other: Path) -> Run:
    before = files(other)
    run = run_program(
        "task=subset_restore",
        "policy_ids=[p1]",
        f"source.path={source}",
        f"base.path={other}",
        "checkpoint.path=result",
        folder=tmp_path_factory.mktemp("merged"),
    ).succeeded()
    assert files(other) == before, "the base is only read"
    return run


def test_the_policy_is_the_sources_and_the_rest_is_the_bases(merged: Run, source: Path, other: Path) -> None:
    result = merged.folder / "result" / "policies"
    assert digests(result / "p1") == digests(source / "policies/p1") != {}
    assert files(result / "p0") == files(other / "policies/p0"), "equal state, equal bytes"
    assert files(result / "p2") == files(other / "policies/p2")
    assert (result / "p1/state.h5").read_bytes() == (source / "policies/p1/state.h5").read_bytes()


def test_a_report_lists_restored_and_kept(merged: Run) -> None:
    words = json.dumps(merged.report).lower()
    assert "restored" in words
    assert "kept" in words
    assert {"p0", "p1", "p2"} <= {
        part for leaf in leaves(merged.report) if isinstance(leaf, str) for part in leaf.split("/")
    }
    assert "restored" in merged.out.lower()
    assert "kept" in merged.out.lower()


@pytest.mark.slow
def test_freshly_built_policies_are_a_base_too(source: Path, tmp_path: Path) -> None:
    run_program(
        "task=subset_restore", "policy_ids=[p1]", f"source.path={source}", "checkpoint.path=result", folder=tmp_path
    ).succeeded()
    result = tmp_path / "result" / "policies"
    assert digests(result / "p1") == digests(source / "policies/p1")
    assert sorted(path.name for path in result.iterdir() if path.is_dir()) == ["p0", "p1", "p2"]


@pytest.mark.slow
def test_a_policy_may_get_another_name(source: Path, other: Path, tmp_path: Path) -> None:
    run_program(
        "task=subset_restore",
        "policy_ids=[p1]",
        "rename={p1: p7}",
        f"source.path={source}",
        f"base.path={other}",
        "checkpoint.path=result",
        folder=tmp_path,
    ).succeeded()
    result = tmp_path / "result" / "policies"
    assert files(result / "p7") == files(source / "policies/p1")
    for kept in ("p0", "p1", "p2"):
        assert files(result / kept) == files(other / "policies" / kept)


def test_a_failure_leaves_nothing_behind(source: Path, other: Path, tmp_path: Path) -> None:
    run = run_program(
        "task=subset_restore",
        "policy_ids=[p2]",
        f"source.path={source}",
        f"base.path={other}",
        "checkpoint.path=made/result",
        folder=tmp_path,
    ).failed(1)
    assert "p2" in run.text
    assert [path for path in tmp_path.rglob("*") if path.name in ("manifest.json", "state.h5")] == []
