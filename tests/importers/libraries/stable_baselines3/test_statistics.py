from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rlpipe.errors import NormalizerError, RlpipeError
from rlpipe.importers.libraries.stable_baselines3 import Options, read
from rlpipe.importers.libraries.stable_baselines3.statistics import Statistics, read_statistics
from rlpipe.snapshot.state import entries

GOLDEN = Path(__file__).parents[3] / "golden" / "sb3"
CASES = ("ppo_normalised", "sac_normalised")


def run_of(case: str, folder: Path) -> tuple[Path, Path]:
    """A copy of a zip with its statistics, which a test may change."""
    shutil.copy(GOLDEN / f"{case}.zip", folder)
    shutil.copytree(GOLDEN / case, folder / case)
    return folder / f"{case}.zip", folder / case / "vecnormalize.pkl"


def places(data: bytes, statistics: Statistics) -> Iterator[tuple[int, int]]:
    """Where the numbers lie in the file: first byte, how many."""
    for number in (statistics.mean, statistics.var, statistics.clip, statistics.eps, statistics.count):
        texts = [np.asarray(number).astype(order).tobytes() for order in ("<f8", ">f8")]
        found = [(data.find(text), len(text)) for text in texts if text in data]
        assert found, number
        yield found[0]


@pytest.mark.parametrize("case", CASES)
def test_a_flipped_bit_is_refused_or_makes_no_difference_or_is_told(case: str, tmp_path: Path) -> None:
    path, file = run_of(case, tmp_path)
    data = file.read_bytes()
    good = read_statistics(file)
    assert good.mean is not None
    assert good.var is not None
    rng = np.random.default_rng(0)
    raw = good.mean + np.sqrt(good.var) * rng.normal(size=(64, *good.mean.shape)) * 3
    for start, length in places(data, good):
        for bit in range(0, 8 * length, 3):
            spoiled = bytearray(data)
            spoiled[start + bit // 8] ^= 1 << (bit % 8)
            file.write_bytes(spoiled)
            try:
                report = read(path, Options()).report
            except RlpipeError:
                continue
            now = read_statistics(file)
            if now.clip != good.clip:
                # No observation of the zip reached it, so that nothing but its value can be told.
                assert f"clip_obs, {now.clip:.6g} by the file" in report.confirmed[0]
                continue
            np.testing.assert_allclose(now.normalize(raw), good.normalize(raw), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("field", "value"),
    [("epsilon", -1e-8), ("epsilon", np.nan), ("clip_obs", -10.0), ("clip_obs", 0.0), ("clip_obs", np.nan)],
)
def test_numbers_that_cannot_normalise_are_refused(field: str, value: float, tmp_path: Path) -> None:
    _, file = run_of("ppo_normalised", tmp_path)
    good = read_statistics(file)
    old = np.asarray(good.eps if field == "epsilon" else good.clip)
    data = file.read_bytes()
    (order,) = (order for order in ("<f8", ">f8") if old.astype(order).tobytes() in data)
    file.write_bytes(data.replace(old.astype(order).tobytes(), np.asarray(value).astype(order).tobytes()))
    with pytest.raises(NormalizerError):
        read_statistics(file)


def test_a_proof_says_that_nothing_was_cut_off(tmp_path: Path) -> None:
    path, file = run_of("ppo_normalised", tmp_path)
    found = read(path, Options())
    assert "proved" in found.report.confirmed[0]
    assert "did not reach clip_obs, 10 by the file" in found.report.confirmed[0]
    kept = read_statistics(file).entries()
    assert kept.keys() <= entries(found.snapshot.state).keys()
