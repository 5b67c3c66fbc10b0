from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.algorithms.policy_mapping import PolicyMapping
from rlpipe.errors import ConfigError, SelectionError, SpecError, UntrustedClassError
from rlpipe.snapshot.spec import canonical_json

IDS = ("p0", "p1")
TRUST = ("tests.algorithms.test_policy_mapping.*",)


def by_number(agent: str) -> str:
    return f"p{int(agent) % 2}"


def test_names_count_before_globs_and_the_first_glob_before_others() -> None:
    mapping = PolicyMapping.of({"*": "p0", "1*": "p1", "3": "p1"}, IDS)
    assert mapping is not None
    assert [mapping.policy_id(agent, IDS) for agent in ("3", "12", "x")] == ["p1", "p0", "p0"]


@pytest.mark.parametrize("given", [by_number, "tests.algorithms.test_policy_mapping.by_number"])
def test_a_function_maps_and_is_kept_by_its_path(given: object) -> None:
    mapping = PolicyMapping.of(given, IDS, trust=TRUST)  # type: ignore[arg-type]
    assert mapping is not None
    assert mapping.policy_id("3", IDS) == "p1"
    assert mapping.to_json() == "tests.algorithms.test_policy_mapping.by_number"
    again = PolicyMapping.of(mapping.to_json(), IDS, trust=TRUST)
    assert again is not None
    assert again.policy_id("2", IDS) == "p0"


def test_a_lone_policy_acts_for_all_and_of_several_none_is_picked() -> None:
    lone = PolicyMapping.of(None, ["p7"])
    assert lone is not None
    assert lone.policy_id("anyone", ["p7"]) == "p7"
    assert PolicyMapping.of(None, IDS) is None


def test_what_is_left_among_some_policies() -> None:
    mapping = PolicyMapping({"0": "p0", "1": "p1"})
    left = mapping.only(["p1"])
    assert left is not None
    assert left.to_json() == {"1": "p1"}
    nothing = PolicyMapping({"0": "p0"}).only(["p1"])
    assert nothing is not None
    assert nothing.to_json() == {"*": "p1"}


def test_wrong_mappings_are_told() -> None:
    with pytest.raises(SelectionError, match="'p9'"):
        PolicyMapping.of({"*": "p9"}, IDS)
    with pytest.raises(SelectionError):
        PolicyMapping({"0": "p0"}).policy_id("1", IDS)
    with pytest.raises(SelectionError):
        PolicyMapping({}, lambda _: "p9").policy_id("1", IDS)
    for wrong in ({1: "p0"}, {"*": ""}, 5):
        with pytest.raises(ConfigError):
            PolicyMapping.of(wrong, IDS)  # type: ignore[arg-type]
    with pytest.raises(UntrustedClassError):
        PolicyMapping.of("os.getcwd", IDS)
    with pytest.raises(SpecError):
        PolicyMapping({}, lambda _: "p0").to_json()


@given(st.permutations(["*", "a*", "ab*", "*b", "a", "[ab]*"]))
def test_the_order_of_globs_is_kept_where_it_is_written(order: list[str]) -> None:
    ids = tuple(f"p{index}" for index in range(len(order)))
    mapping = PolicyMapping(dict(zip(order, ids, strict=True)))
    written = json.loads(canonical_json(mapping.to_json()))
    again = PolicyMapping.of(PolicyMapping.from_json(written), ids)
    assert again is not None
    for agent in ("a", "b", "ab", "bab", "c"):
        assert again.policy_id(agent, ids) == mapping.policy_id(agent, ids)


def test_what_sorting_keeps_is_written_as_a_plain_object() -> None:
    assert PolicyMapping({"*": "p0", "a*": "p1"}).to_json() == {"*": "p0", "a*": "p1"}
    assert PolicyMapping({"b": "p0", "a": "p1", "*": "p0"}).to_json() == {"b": "p0", "a": "p1", "*": "p0"}
    assert PolicyMapping({"a*": "p0", "*": "p1"}).to_json() == [["a*", "p0"], ["*", "p1"]]
