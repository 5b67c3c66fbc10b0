from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from rlpipe.exporters.compare import Answers, Findings, Tolerance, compare
from rlpipe.exporters.signature import TensorSpec

Array = np.ndarray[Any, Any]
TIGHT = Tolerance(atol=1e-5, rtol=1e-5)
REAL = TensorSpec(name="action", dtype="float32", shape=(2,))
CHOICE = TensorSpec(name="action", dtype="int64", shape=(), low=0, high=3)
POLICY = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)


def still(rows: Array, relative: float) -> Iterator[Mapping[str, Array]]:
    """A policy that rounds nothing: no difference is excused."""
    del relative
    yield {"action": POLICY[rows]}


def judged(
    spec: TensorSpec, policy: Array, found: Array, perturb: Any = still, tolerance: Tolerance = TIGHT
) -> Findings:
    rows = np.arange(len(policy))
    answers = Answers(
        policy={"action": policy}, defined=np.ones(len(policy), bool), artifact={"action": found}, rows=rows
    )
    return compare((spec,), answers, tolerance, perturb)


def test_equal_is_equal() -> None:
    expected = Findings(max_error=0.0, differing=(), ties=0, rounding=0, undefined=0, errors={"action": 0.0})
    assert judged(REAL, POLICY, POLICY.copy()) == expected


@pytest.mark.parametrize(("error", "differing"), [(9e-6, ()), (1e-4, (7,))])
def test_the_tolerance_decides(error: float, differing: tuple[int, ...]) -> None:
    found = POLICY.copy()
    found[7, 1] += error
    result = judged(REAL, POLICY, found)
    assert result.differing == differing
    assert result.max_error == pytest.approx(error, rel=0.05)


def test_differences_of_unbounded_numbers_are_counted_by_their_size() -> None:
    policy = POLICY * 1000
    result = judged(REAL, policy, policy * np.float32(1 + 3e-6))
    assert result.differing == ()
    assert result.max_error == pytest.approx(3e-6, rel=0.1)
    bounded = TensorSpec(name="action", dtype="float32", shape=(2,), low=-5000.0, high=5000.0)
    assert judged(bounded, policy, policy * np.float32(1 + 3e-6)).max_error > 1e-3


def test_answers_are_matched_to_their_observations() -> None:
    rows = np.array([5, 3, 3, 9])
    found = POLICY[rows].copy()
    found[2] += 1
    defined = np.ones(len(POLICY), bool)
    answers = Answers(policy={"action": POLICY}, defined=defined, artifact={"action": found}, rows=rows)
    result = compare((REAL,), answers, TIGHT, still)
    assert result.differing == (3,)


@pytest.mark.parametrize(
    ("policy", "found", "differing", "undefined"),
    [
        (np.nan, np.nan, (), 0),
        (np.inf, np.inf, (), 0),
        (-np.inf, np.inf, (), 1),
        (np.nan, 0.5, (), 1),
        (0.5, np.nan, (4,), 0),
        (0.5, np.inf, (4,), 0),
    ],
)
def test_what_is_no_number(policy: float, found: float, differing: tuple[int, ...], undefined: int) -> None:
    expected, answer = POLICY.copy(), POLICY.copy()
    expected[4, 0], answer[4, 0] = policy, found
    result = judged(REAL, expected, answer)
    assert (result.differing, result.undefined) == (differing, undefined)


def test_large_bounded_actions_are_measured_by_their_size() -> None:
    """A torque of 200 N m computed in float32 is right to 1e-5 of 200, also where it crosses zero."""
    spec = TensorSpec(name="action", dtype="float32", shape=(2,), low=-200.0, high=200.0)
    policy = (POLICY * 100).astype(np.float32)
    policy[3] = 0
    found = policy + np.float32(9e-4)
    assert judged(spec, policy, found).differing == ()
    assert judged(REAL, policy, found).differing != ()


def test_bounds_that_no_action_comes_near_allow_nothing() -> None:
    spec = TensorSpec(name="action", dtype="float32", shape=(2,), low=-3e38, high=3e38)
    assert len(judged(spec, POLICY, POLICY + np.float32(1e-3)).differing) == len(POLICY)


def test_half_precision_actions_may_round_either_way() -> None:
    policy = POLICY.astype(np.float16)
    spec = TensorSpec(name="action", dtype="float16", shape=(2,))
    assert judged(spec, policy, np.nextafter(policy, np.float16(9))).differing == ()
    assert judged(spec, policy, policy * np.float16(1.01)).differing != ()


def rounds(size: float) -> Any:
    """A policy whose own rounding moves its actions by `size`."""

    def perturb(rows: Array, relative: float) -> Iterator[Mapping[str, Array]]:
        assert relative == pytest.approx(2**-19)
        yield {"action": POLICY[rows]}
        yield {"action": POLICY[rows] - np.float32(size)}

    return perturb


@pytest.mark.parametrize(("own", "differing", "excused"), [(1e-3, (), 1), (5e-5, (7,), 0)])
def test_the_policys_own_rounding_excuses(own: float, differing: tuple[int, ...], excused: int) -> None:
    found = POLICY.copy()
    found[7] += np.float32(5e-4)
    result = judged(REAL, POLICY, found, rounds(own))
    assert (result.differing, result.rounding) == (differing, excused)
    assert (result.max_error == 0) == bool(excused)


def test_a_tolerance_below_float32_is_not_softened() -> None:
    found = POLICY.copy()
    found[7] += np.float32(1e-6)
    result = judged(REAL, POLICY, found, rounds(5e-6), Tolerance(atol=1e-30, rtol=0))
    assert result.differing == (7,)


def test_nothing_is_excused_when_much_differs() -> None:
    assert len(judged(REAL, POLICY, POLICY + np.float32(5e-4), rounds(1.0)).differing) == len(POLICY)


CHOICES = np.random.default_rng(1).integers(0, 4, 40)


def hesitates(rows: Array, relative: float) -> Iterator[Mapping[str, Array]]:
    """A policy that can as well choose 0 for observation 6."""
    assert relative == pytest.approx(1e-5)
    yield {"action": np.where(rows == 6, 0, CHOICES[rows])}


@pytest.mark.parametrize(("row", "choice", "differing", "ties"), [(6, 0, (), 1), (6, 5, (6,), 0), (8, 5, (8,), 0)])
def test_a_decision_on_the_edge_is_a_tie(row: int, choice: int, differing: tuple[int, ...], ties: int) -> None:
    found = CHOICES.copy()
    found[row] = choice
    result = judged(CHOICE, CHOICES, found, hesitates)
    assert (result.differing, result.ties) == (differing, ties)


def test_several_outputs_are_all_compared() -> None:
    specs = (
        TensorSpec(name="action.0", dtype="int64", shape=()),
        TensorSpec(name="action.1", dtype="float32", shape=(2,)),
    )
    policy: dict[str, Array] = {"action.0": CHOICES, "action.1": POLICY}
    found: dict[str, Array] = {"action.0": CHOICES.copy(), "action.1": POLICY.copy()}
    found["action.0"][2] += 1
    found["action.1"][5] += 1

    def perturb(rows: Array, relative: float) -> Iterator[Mapping[str, Array]]:
        del relative
        yield {name: array[rows] for name, array in policy.items()}

    answers = Answers(policy=policy, defined=np.ones(40, bool), artifact=found, rows=np.arange(40))
    assert compare(specs, answers, TIGHT, perturb).differing == (2, 5)


def test_choices_made_from_no_numbers_are_not_judged() -> None:
    defined = np.ones(40, bool)
    defined[7] = False
    found = CHOICES.copy()
    found[7] += 1
    answers = Answers(policy={"action": CHOICES}, defined=defined, artifact={"action": found}, rows=np.arange(40))
    result = compare((CHOICE,), answers, TIGHT, still)
    assert (result.differing, result.undefined) == ((), 1)
