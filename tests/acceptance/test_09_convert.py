"""Convert: HDF5 to pickle and back, bit for bit, by task=save alone."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.program import FINGERPRINT, Run, digests, files, run_program, values_at

POLICIES = ("p0", "p1", "p2")


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Run:
    """`pickled` is made of the sample and `back` of `pickled`."""
    folder = tmp_path_factory.mktemp("converted")
    run_program(
        "task=save", f"source.path={sample}", "checkpoint=pickle", "checkpoint.path=pickled", folder=folder
    ).succeeded()
    return run_program(
        "task=save", "source.path=pickled", "checkpoint=hdf5", "checkpoint.path=back", folder=folder
    ).succeeded()


def test_every_array_is_bit_equal_in_both_files(converted: Run, sample: Path) -> None:
    for policy in POLICIES:
        original = digests(sample / "policies" / policy)
        assert original
        assert (converted.folder / "pickled/policies" / policy / "state.pkl").is_file()
        assert digests(converted.folder / "pickled/policies" / policy) == original
        assert digests(converted.folder / "back/policies" / policy) == original


def test_back_again_is_the_same_to_the_byte(converted: Run, sample: Path) -> None:
    assert files(converted.folder / "back/policies") == files(sample / "policies")


def test_hashes_and_fingerprints_are_the_same(converted: Run, sample: Path) -> None:
    def known(path: Any) -> tuple[list[Any], list[Any], list[str]]:
        run = run_program("task=info", f"source.path={path}", folder=converted.folder).succeeded()
        hashes = (values_at(run.report, name) for name in ("content_hash", "inference_hash"))
        content, inference = hashes
        return content, inference, re.findall(FINGERPRINT, run.out)

    expected = known(sample)
    assert len(expected[0]) >= 3
    assert known("pickled") == expected
    assert known("back") == expected


def test_no_private_path_is_recorded(converted: Run, sample: Path) -> None:
    """The source was named by its absolute path."""
    private = [str(path).encode() for path in (converted.folder, sample.parent, Path.home() / "x")]
    written = files(converted.folder / "pickled") | files(converted.folder / "back")
    assert [name for name, data in written.items() if any(text in data for text in private)] == []


@pytest.mark.slow
def test_a_conversion_does_not_replace_a_checkpoint_in_silence(converted: Run, sample: Path) -> None:
    before = files(converted.folder / "back")
    run = run_program(
        "task=save", f"source.path={sample}", "policy_ids=[p0]", "checkpoint.path=back", folder=converted.folder
    ).failed(1, 2)
    assert "back" in run.text
    assert files(converted.folder / "back") == before
