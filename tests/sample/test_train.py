"""The script that makes the sample, with tasks that take seconds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.errors import MissingDependencyError, RlpipeError
from rlpipe.sample import train as script
from rlpipe.snapshot.snapshot import component

QUICK = replace(script.RECIPES["p0"], threshold=9.0, chunk=256, chunks=1)


def test_the_script_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'rlpipe\[sb3\]'"):
        script.train(QUICK, tmp_path / "model.zip")


def test_a_checkpoint_is_made_and_good_zips_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("stable_baselines3")
    monkeypatch.setattr(script, "RECIPES", {"p0": QUICK})
    path = script.main(tmp_path)
    policy = component(read_checkpoint(path), "policies/p0")
    assert policy.metadata["env"] == "CartPole-v1"
    assert policy.metadata["returns"]["mean"] >= QUICK.threshold
    (zip_file,) = tmp_path.glob("*.zip")
    before = zip_file.read_bytes()
    script.main(tmp_path)
    assert zip_file.read_bytes() == before


def test_what_is_never_learnt_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("stable_baselines3")
    monkeypatch.setattr(script, "TRAINING_SEEDS", range(1))
    with pytest.raises(RlpipeError, match="did not learn CartPole-v1"):
        script.train(replace(QUICK, threshold=501.0), tmp_path / "model.zip")
