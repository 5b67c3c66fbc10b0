from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.errors import ConfigError, SelectionError, SpecError, StateMismatchError
from rlpipe.snapshot.state import arrays, entries, equal
from tests.algorithms.training import TRUST, policy, step
from tests.algorithms.whole import go, require_in_step, training, whole

ENCODER = ("encoder/*",)


@pytest.fixture(name="saved", scope="module")
def _saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    made = whole("p0", "p1", evaluation=False)
    go(made, 3)
    return Path(made.save_to_path(tmp_path_factory.mktemp("part") / "a")), made.get_state()


def moments(state: dict[str, Any], name: str = "p0") -> dict[str, Any]:
    return entries(state["learner"][name]["moments"])


def test_an_encoder_comes_with_its_moments_and_the_heads_start_anew(saved: Any) -> None:
    path, state = saved
    fresh = whole("p0", "p1", seed=40)
    before = fresh.get_state()
    report = fresh.restore_part(path, keys=ENCODER)
    found = fresh.get_state()
    require_in_step(fresh)
    for name in ("p0", "p1"):
        assert equal(found["policies"][name]["encoder"], state["policies"][name]["encoder"])
        for part in ("pi", "vf", "observation"):
            assert equal(found["policies"][name][part], before["policies"][name][part])
        for key, value in moments(found, name).items():
            assert equal(value, moments(state, name)[key] if key.startswith("encoder") else ({},))
    assert all(key.split("/", 2)[2].startswith("encoder") for key in report.restored)
    assert {key.partition("/")[0] for key in report.kept} >= {"policies", "learner", "env_runner"}
    go(fresh, 1)


def test_moments_of_what_stays_are_kept(saved: Any) -> None:
    path, state = saved
    live = whole("p0", "p1", seed=40)
    go(live, 2)
    before = live.get_state()
    live.restore_part(path, policy_ids=["p0"], keys=ENCODER)
    found = live.get_state()
    assert equal(found["learner"]["p1"], before["learner"]["p1"])
    for key, value in moments(found).items():
        assert equal(value, moments(state if key.startswith("encoder") else before)[key])
    assert equal(found["learner"]["p0"]["groups"], before["learner"]["p0"]["groups"])
    go(live, 1)


def test_a_whole_policy_brings_its_training(saved: Any) -> None:
    path, state = saved
    live = whole("p0", "p1", seed=40)
    go(live, 1)
    live.restore_part(path, policy_ids=["p1"])
    assert equal(live.get_state()["learner"]["p1"], state["learner"]["p1"])
    require_in_step(live)


def test_without_known_training_moments_start_anew_and_the_report_says_so(tmp_path: Path) -> None:
    path = Algorithm({"p0": whole("p0").get_policy("p0")}).save_to_path(tmp_path / "a")
    live = whole("p0", seed=40)
    go(live, 1)
    report = live.restore_part(path, keys=ENCODER)
    assert len(report.notes) == 1
    assert report.notes[0].startswith("p0: the optimizer starts anew for encoder/actor_encoder")
    assert equal(moments(live.get_state())["encoder/actor_encoder/0/weight"], ({},))
    assert not equal(moments(live.get_state())["pi/logits/weight"], ({},))


def wider() -> Algorithm:
    config = {"actor": {"type": "mlp", "hidden": [6]}, "critic": {"type": "mlp", "hidden": [4]}}
    made = policy(7, model_config=config)
    return Algorithm({"p0": made}, learner=Learner.for_policies({"p0": made}, training(), trust=TRUST))


def narrow(path: Path) -> tuple[Path, dict[str, Any]]:
    made = policy(3)
    source = Algorithm({"p0": made}, learner=Learner.for_policies({"p0": made}, training(), trust=TRUST))
    assert source.learner is not None
    step(source.learner, 0, 2)
    return Path(source.save_to_path(path / "narrow")), source.get_state()


def test_other_shapes_are_refused_by_default(tmp_path: Path) -> None:
    path, _ = narrow(tmp_path)
    live = wider()
    before = live.get_state()
    with pytest.raises(SpecError, match=r"model_config\.actor"):
        live.restore_part(path)
    assert equal(live.get_state(), before)


def test_other_shapes_are_skipped_and_told(tmp_path: Path) -> None:
    path, state = narrow(tmp_path)
    live = wider()
    before = live.get_state()
    report = live.restore_part(path, on_shape="skip")
    found = live.get_state()
    ours, theirs = (arrays(each["policies"]["p0"]) for each in (before, state))
    for key, array in arrays(found["policies"]["p0"]).items():
        is_same = ours[key].shape == theirs[key].shape
        assert equal(array, theirs[key] if is_same else ours[key])
        assert is_same or any(note.startswith(f"p0/{key} was left") for note in report.notes)
    assert equal(moments(found)["encoder/actor_encoder/0/weight"], ({},))
    assert equal(moments(found)["vf/weight"], moments(state)["vf/weight"])


def test_what_both_reach_is_copied(tmp_path: Path) -> None:
    path, state = narrow(tmp_path)
    live = wider()
    before = live.get_state()
    live.restore_part(path, on_shape="copy_overlap")
    found = live.get_state()["policies"]["p0"]["encoder"]["actor_encoder"]["0"]["weight"]
    assert found.shape == (6, 3)
    assert np.array_equal(found[:4], state["policies"]["p0"]["encoder"]["actor_encoder"]["0"]["weight"])
    assert np.array_equal(found[4:], before["policies"]["p0"]["encoder"]["actor_encoder"]["0"]["weight"][4:])
    assert equal(moments(live.get_state())["encoder/actor_encoder/0/weight"], ({},))
    assert live.learner is not None
    step(live.learner, 0, 1)


def test_patterns_that_match_nothing_and_other_networks_are_errors(saved: Any, tmp_path: Path) -> None:
    path, _ = saved
    live = whole("p0", "p1")
    before = live.get_state()
    with pytest.raises(SelectionError):
        live.restore_part(path, keys=["encodr/*"])
    with pytest.raises(SelectionError):
        live.restore_part(path, policy_ids=["p9"])
    assert equal(live.get_state(), before)
    other = Algorithm({"p0": policy(0)})
    with pytest.raises((SpecError, StateMismatchError)):
        other.restore_part(path, policy_ids=["p0"], on_shape="copy_overlap")


def test_a_text_in_place_of_globs_is_told(tmp_path: Path) -> None:
    made = whole("p0")
    path = made.save_to_path(tmp_path / "run")
    arguments: tuple[Any, ...] = ({"keys": "encoder/*"}, {"policy_ids": "p*"})
    for argument in arguments:
        with pytest.raises(ConfigError, match="a list of"):
            made.restore_part(path, **argument)
