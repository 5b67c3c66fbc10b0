"""Ids that are renamed, and the line that says how."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import ConfigError, IdError, SelectionError
from rlpipe.pipeline.choose import rename_line, renamed
from rlpipe.pipeline.lift import algorithm_of, container_of, policies_of
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Spec


def tree(*ids: str) -> Snapshot:
    return algorithm_of(container_of({name: Snapshot(Spec(f"x.{Path(name).name}")) for name in ids}))


def ids(snapshot: Snapshot) -> list[str]:
    return sorted(policies_of(snapshot))


@given(names=st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), min_size=1, max_size=4))
def test_the_line_is_one_that_the_command_takes_and_that_helps(names: set[str]) -> None:
    line = rename_line(names)
    if not line:
        return
    value = OverridesParser.create().parse_override(line.strip("'")).value()
    assert isinstance(value, dict)
    pairs = {str(old): str(new) for old, new in value.items()}
    try:
        found = renamed(tree(*names), pairs)
    except IdError:  # letters that are one name on a system that ignores case
        return
    validate_ids(ids(found))


def test_a_glob_names_one_policy() -> None:
    assert ids(renamed(tree("left hand", "p1"), {"left?hand": "left_hand"})) == ["left_hand", "p1"]
    assert ids(renamed(tree("team/a", "team/b"), {"team?a": "a", "team?b": "b"})) == ["a", "b"]
    with pytest.raises(SelectionError, match=r"not one policy 'p\?', but p!, p#"):
        renamed(tree("p!", "p#"), {"p?": "p7"})
    assert rename_line(["p!", "p#"]) == ""
    with pytest.raises(SelectionError, match=r"no policy 'p\?'"):
        renamed(tree("p1", "p2"), {"p?": "p7"})


def test_an_exact_id_is_no_glob() -> None:
    assert ids(renamed(tree("p[1]", "p1"), {"p[1]": "p7"})) == ["p1", "p7"]


def test_ids_that_cannot_stand_are_refused_with_the_line() -> None:
    with pytest.raises(IdError) as caught:
        renamed(tree("a b", "a_b", "c/d"), {})
    assert caught.value.fix == "add 'rename={a b: a_b_2, c/d: c_d}'"
    assert ids(renamed(tree("a b", "a_b", "c/d"), {"a b": "a_b_2", "c/d": "c_d"})) == ["a_b", "a_b_2", "c_d"]


def test_two_policies_do_not_get_one_id() -> None:
    with pytest.raises(ConfigError):
        renamed(tree("p1", "p2"), {"p1": "p2"})
