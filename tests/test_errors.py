from __future__ import annotations

import inspect

import pytest

from rlpipe import errors
from rlpipe.errors import RlpipeError, listed

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, RlpipeError)]
PLAIN = [kind for kind in KINDS if kind.__init__ is RlpipeError.__init__ and kind is not RlpipeError]


@pytest.mark.parametrize("kind", PLAIN)
def test_every_error_says_what_to_do(kind: type[RlpipeError]) -> None:
    assert kind("thing").fix
    assert str(kind("thing", fix="do this")).endswith("fix: do this")


def test_errors_with_parts_of_their_own_say_what_to_do_too() -> None:
    made = [
        errors.FormatVersionError("file", version=9, known=1),
        errors.StateMismatchError("module", missing=["a"]),
        errors.SelectionError("nothing", pattern="x"),
        errors.UntrustedClassError("a.B", trusted=["rlpipe.*"], where="manifest"),
        errors.MissingDependencyError("onnx", extra="onnx", purpose="export"),
        errors.VerificationError("action", max_error=1.0, tolerance=0.1),
    ]
    assert all(error.fix for error in made)
    assert {type(error) for error in made} | set(PLAIN) | {RlpipeError} == set(KINDS)


def test_the_tree_at_the_top_draws_every_class_with_its_builtin() -> None:
    lines = (errors.__doc__ or "").splitlines()
    for kind in KINDS:
        if kind is RlpipeError:
            continue
        line = next(line for line in lines if line.strip(" |-").split(" ")[0] == kind.__name__)
        builtin = [base.__name__ for base in kind.__bases__ if not issubclass(base, RlpipeError)]
        assert all(f"({name})" in line for name in builtin)


def test_the_parts_are_attributes_and_lines() -> None:
    error = errors.SpecError("thing", expected="this", found="that", fix="so")
    assert (error.subject, error.expected, error.found, error.fix) == ("thing", "this", "that", "so")
    assert str(error).splitlines() == ["thing", "  expected: this", "  found: that", "  fix: so"]


def test_long_lists_are_sorted_and_capped_with_a_count() -> None:
    assert listed(f"k{index:02}" for index in reversed(range(25))).endswith("k09 and 15 more")


@pytest.mark.parametrize(
    ("pattern", "known", "closest"),
    [
        ("pp1", ("p0", "p1", "p2"), ("p1",)),
        ("policies/pp1", ("policies/p0", "policies/p1"), ("policies/p1",)),
        ("policy/p1", ("policies", "policies/p1"), ("policies/p1", "policies")),
        ("enc/wieght", ("enc/weight", "enc/bias"), ("enc/weight",)),
        ("default_polcy", ("default_policy", "main"), ("default_policy",)),
        ("p9", ("p0", "p1", "p2"), ()),
        ("policies/p9", ("policies/p0", "policies/p1"), ()),
        ("policies/main_v4", ("policies/main_v3", "policies/p0"), ("policies/main_v3",)),
        ("policies/zz", ("policies/p0", "policies/main"), ()),
    ],
)
def test_only_names_that_may_be_meant_are_suggested(
    pattern: str, known: tuple[str, ...], closest: tuple[str, ...]
) -> None:
    error = errors.SelectionError("nothing", pattern=pattern, known=known)
    assert error.closest == closest
    assert ("did you mean" in str(error)) == bool(closest)
