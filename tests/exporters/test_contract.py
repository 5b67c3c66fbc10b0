from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlpipe.exporters.checked import checked
from rlpipe.exporters.contract import declared_feeds, judge, wrong_feeds
from tests.exporters.graphs import EXAMPLES, Example, many_inputs, normalised
from tests.exporters.memory_graphs import STEPPING, Stepping, lstm, masked_choices


def test_the_cases_of_one_vector() -> None:
    example = normalised()
    cases = wrong_feeds(example.signature, example.reference().observations.arrays)
    assert list(cases) == [
        *(f"{case} of obs" for case in ("dtype", "rank", "width", "transposed", "NaN")),
        "missing obs",
        "an extra input",
    ]
    assert cases["dtype of obs"]["obs"].dtype == np.float64
    assert cases["rank of obs"]["obs"].shape == (24,)
    assert cases["transposed of obs"]["obs"].shape == (24, 3)


def test_an_image_in_another_layout_is_a_case() -> None:
    example = many_inputs()
    cases = wrong_feeds(example.signature, example.reference().observations.arrays)
    assert cases["layout of obs.image"]["obs.image"].shape == (3, 3, 8, 8)
    assert "NaN of obs.image" not in cases


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_check_refuses_every_case_and_takes_what_is_right(name: str) -> None:
    example: Example = EXAMPLES[name]()
    arrays = example.reference().observations.arrays
    guarded = checked(example.compute, [spec.to_json() for spec in example.signature.inputs])
    assert guarded({key: array[:3] for key, array in arrays.items()})
    for case, feeds in wrong_feeds(example.signature, arrays).items():
        with pytest.raises(ValueError, match=r"obs|extra|batch sizes") as caught:
            guarded(feeds)
        assert str(caught.value), case


@pytest.mark.parametrize("name", STEPPING)
def test_it_refuses_wrong_memory_masks_and_noise_too(name: str) -> None:
    example = STEPPING[name]()
    arrays = example.chosen().arrays
    guarded = checked(example.compute, [spec.to_json() for spec in example.signature.inputs])
    for case, feeds in wrong_feeds(example.signature, arrays).items():
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says differs
            guarded(feeds)
        assert str(caught.value), case


def test_the_cases_of_a_memory() -> None:
    cases = wrong_feeds(lstm().signature, lstm().chosen().arrays)
    assert {
        "missing state.1", "dtype of state.0", "rank of state.0", "width of state.0", "NaN of state.1",
        "another batch of state.0", "dtype of episode_start", "missing episode_start",
    } <= set(cases)  # fmt: skip
    assert cases["dtype of episode_start"]["episode_start"].dtype == np.float32
    assert cases["width of state.0"]["state.0"].shape == (3, 1, 7)
    assert "width of action_mask" in wrong_feeds(masked_choices().signature, masked_choices().chosen().arrays)


@pytest.mark.parametrize("make", [lstm, masked_choices])
def test_what_only_looks_wrong_has_a_declared_outcome(make: Callable[[], Stepping]) -> None:
    example = make()
    arrays = example.chosen().arrays
    guarded = checked(example.compute, [spec.to_json() for spec in example.signature.inputs])
    (case,) = declared_feeds(example.signature, arrays).values()
    one, other = guarded(case.feeds), guarded(case.like)
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert any((case.feeds[name] != case.like[name]).any() for name in case.feeds)


def test_a_declared_outcome_that_does_not_come_fails() -> None:
    same = "answers as if every choice were allowed"
    level = judge({"no choice allowed": {"file": same, "checked": same}}, "")
    assert (level.status, "no choice allowed: answers as if" in level.detail) == ("ok", True)
    level = judge({"no choice allowed": {"file": "answers otherwise", "checked": "answers otherwise"}}, "")
    assert (level.status, "it answers no choice allowed" in level.detail) == ("failed", True)


def test_the_check_copies_what_is_not_contiguous() -> None:
    example = normalised()
    array = example.reference().observations.arrays["obs"][:6]
    guarded = checked(lambda arrays: arrays, [spec.to_json() for spec in example.signature.inputs])
    given = guarded({"obs": np.asfortranarray(array)})["obs"]
    assert given.flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(given, array)


REFUSES, ANSWERS = "refuses: ValueError: no", "answers"


def test_what_the_bare_file_does_is_declared() -> None:
    level = judge({"NaN of obs": {"file": ANSWERS, "checked": REFUSES}}, "")
    assert (level.status, level.facts["NaN of obs"]["file"]) == ("ok", ANSWERS)
    assert "without the check the file answers NaN of obs" in level.detail


@pytest.mark.parametrize(
    ("outcome", "died", "said"),
    [(ANSWERS, "", "it answers rank of obs"), (REFUSES, "exit code -11", "ends the process: exit code -11")],
)
def test_a_silent_number_or_a_crash_fails(outcome: str, died: str, said: str) -> None:
    level = judge({"rank of obs": {"file": ANSWERS, "checked": outcome}}, died)
    assert level.status == "failed"
    assert said in level.detail
