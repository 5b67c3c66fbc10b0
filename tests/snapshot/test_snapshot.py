"""The laws of select, merge, rename and diff, and what identity means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rlpipe.errors import ConfigError, SelectionError, SpecError, StateMismatchError, TieError
from rlpipe.snapshot import (
    KeyMap,
    Role,
    Selection,
    Snapshot,
    Spec,
    content_hash,
    diff,
    fingerprint,
    inference_hash,
    merge,
    rename,
    select,
    ties,
    walk,
)
from rlpipe.snapshot.selection import matches
from rlpipe.snapshot.snapshot import tied
from rlpipe.snapshot.state import State, canonical, entries
from tests.snapshot.strategies import components, snapshots

INFERENCE: frozenset[Role] = frozenset({"inference"})
TRAINING: frozenset[Role] = frozenset({"training"})


def leaf(state: State, training: tuple[str, ...] = (), **config: object) -> Snapshot:
    """A component with the given state, all inference but the named entries."""
    kept = canonical(state)
    roles: dict[str, Role] = {key: "training" if key in training else "inference" for key in entries(kept)}
    return Snapshot(Spec("some.Policy", config, {"inference_only": False}), kept, roles)


def tree(**policies: Snapshot) -> Snapshot:
    """An algorithm that holds these policies."""
    return Snapshot(Spec("some.Algorithm"), children={"policies": Snapshot(Spec("some.Box"), children=policies)})


def weights(seed: int) -> State:
    rng = np.random.default_rng(seed)
    layer = {"weight": rng.normal(size=(2, 3)).astype("f4"), "bias": rng.normal(size=2).astype("f4")}
    return {"encoder": {"0": layer}, "vf": {"weight": rng.normal(size=(1, 2)).astype("f4")}, "steps": seed}


def policy(seed: int) -> Snapshot:
    return leaf(weights(seed), training=("vf/weight", "steps"))


def keys(snapshot: Snapshot) -> set[str]:
    return {f"{path}/{key}".lstrip("/") for path, part in walk(snapshot) for key in part.roles}


@given(snapshots, st.data())
def test_merging_a_selection_back_changes_nothing(snapshot: Snapshot, data: st.DataObject) -> None:
    paths = [path for path, _ in walk(snapshot) if path]
    assume(paths)
    chosen = data.draw(st.sets(st.sampled_from(paths), min_size=1))
    part = select(snapshot, Selection(components=tuple(chosen), ties="untie"))
    assert diff(snapshot, merge(snapshot, part)).same


@given(components(), components())
def test_a_merge_is_the_patch_on_its_keys_and_the_base_elsewhere(base: Snapshot, other: Snapshot) -> None:
    patch = select(replace(base, state=base.state), Selection(roles=TRAINING))
    patched = merge(replace(base, metadata={"kept": True}), patch)
    assert diff(base, patched).same
    assert patched.metadata == {"kept": True} or patch.whole
    assert diff(other, other).same


@given(components())
def test_selecting_in_two_steps_is_selecting_in_one(snapshot: Snapshot) -> None:
    key = next(iter(snapshot.roles), None)
    assume(key is not None)
    both = Selection(keys=(str(key),), roles=frozenset({snapshot.roles[str(key)]}), ties="untie")
    steps = select(select(snapshot, replace(both, keys=None)), replace(both, roles=both.roles))
    assert diff(select(snapshot, both), steps).same


def test_a_merge_takes_values_from_the_patch_and_keeps_the_rest() -> None:
    base, source = tree(p0=policy(0), p1=policy(1)), tree(p0=policy(10), p1=policy(11))
    merged = merge(base, select(source, Selection(components=("policies/p1",))))
    assert diff(merged, base).changed == tuple(sorted(f"policies/p1/{key}" for key in policy(1).roles))
    assert diff(merged.children["policies"].children["p1"], policy(11)).same


def test_a_part_keeps_the_entries_that_it_lacks() -> None:
    slim = select(policy(1), Selection(roles=INFERENCE))
    merged = merge(policy(0), slim)
    assert merged.state["steps"] == 0
    assert merged.spec.options == {"inference_only": False}
    assert np.array_equal(merged.state["encoder"]["0"]["bias"], weights(1)["encoder"]["0"]["bias"])


def test_differing_specs_are_an_error_that_names_the_field() -> None:
    base, patch = leaf({"w": 1}, hidden=64), leaf({"w": 2}, hidden=32)
    with pytest.raises(SpecError, match=r"config\.hidden: 64 -> 32"):
        merge(base, patch)
    assert merge(base, patch, on_mismatch="replace").spec.config == {"hidden": 32}


def test_where_kinds_differ_only_the_kinds_are_named() -> None:
    spaces: list[dict[str, object]] = [
        {"type": "Discrete", "n": 2},
        {"type": "Box", "low": [0] * 100, "high": [1] * 100},
    ]
    base, patch = (leaf({"w": 1}, module={"class": "a.Net", "action_space": space}) for space in spaces)
    with pytest.raises(SpecError) as caught:
        merge(base, patch)
    assert caught.value.found.splitlines()[1:] == ['    config.module.action_space.type: "Discrete" -> "Box"']


def test_a_part_of_something_absent_cannot_be_merged() -> None:
    part = tree(p9=select(policy(0), Selection(roles=INFERENCE)))
    with pytest.raises(SpecError, match="policies/p9"):
        merge(tree(p0=policy(0)), replace(part, whole=False))


def test_a_part_with_alien_shapes_is_refused_with_both_shapes() -> None:
    part = select(leaf({"w": np.zeros(3), "v": 1, "x": 1}), Selection(keys=("w", "x")))
    with pytest.raises(StateMismatchError) as caught:
        merge(leaf({"w": np.zeros(2), "v": 1}), part)
    assert caught.value.unexpected == ("x",)
    assert caught.value.mismatched == ("w (float64 (2,) expected, float64 (3,) found)",)


def test_a_pattern_that_matches_nothing_names_the_closest() -> None:
    with pytest.raises(SelectionError) as caught:
        select(tree(main_v3=policy(0)), Selection(components=("policies/main_v4",)))
    assert caught.value.closest[0] == "policies/main_v3"
    with pytest.raises(SelectionError) as caught:
        select(policy(0), Selection(keys=("encodr/*",)))
    assert any(name.startswith("encoder/") for name in caught.value.closest)


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("encoder/0/weight", "encoder", True),
        ("encoder/0/weight", "encoder/*", True),
        ("encoder/0/weight", "enc*", True),
        ("encoder2/0/weight", "encoder", False),
        ("a[0]", "a[0]", True),
        ("policies/p10", "policies/p1", False),
        ("policies/p10", "policies/p?", False),
    ],
)
def test_patterns_match_a_name_and_what_is_below(path: str, pattern: str, expected: bool) -> None:
    assert matches(path, pattern) is expected


def test_components_above_a_selected_one_come_as_shells() -> None:
    root = replace(tree(p0=policy(0), p1=policy(1)), state={"steps": 3}, roles={"steps": "inference"})
    part = select(root, Selection(components=("policies/p1",)))
    assert keys(part) == {f"policies/p1/{key}" for key in policy(1).roles}
    assert [whole for _, whole in ((path, item.whole) for path, item in walk(part))] == [False, False, True]


def test_slim_sets_the_option_and_keeps_the_fingerprint() -> None:
    full = policy(3)
    slim = select(full, Selection(roles=INFERENCE))
    assert slim.spec.options["inference_only"] is True
    assert keys(slim) == {"encoder/0/weight", "encoder/0/bias"}
    assert fingerprint(slim) == fingerprint(full) != fingerprint(policy(4))
    assert content_hash(slim) != content_hash(full)


def test_identity_counts_values_dtypes_plain_entries_and_the_spec_and_not_metadata_or_options() -> None:
    base = leaf({"w": np.zeros(2, "f4"), "n": 1}, hidden=3)
    others = [
        leaf({"w": np.array([0, -0.0], "f4"), "n": 1}, hidden=3),
        leaf({"w": np.zeros(2, "i4"), "n": 1}, hidden=3),
        leaf({"w": np.zeros((2, 1), "f4"), "n": 1}, hidden=3),
        leaf({"w": np.zeros(2, "f4"), "n": True}, hidden=3),
        leaf({"w": np.zeros(2, "f4"), "n": 1}, hidden=4),
        leaf({"v": np.zeros(2, "f4"), "n": 1}, hidden=3),
        replace(base, children={"c": leaf({})}),
    ]
    assert len({inference_hash(item) for item in [base, *others]}) == 1 + len(others)
    same = replace(base, metadata={"a": 1}, spec=replace(base.spec, options={"inference_only": True}))
    assert content_hash(same) == content_hash(base)


def test_identity_does_not_depend_on_memory_layout_or_byte_order() -> None:
    array = np.arange(6, dtype="f4").reshape(2, 3)
    forms = [array, np.asfortranarray(array), array.astype(">f4"), np.repeat(array, 2, axis=1)[:, ::2]]
    assert len({content_hash(leaf({"w": form})) for form in forms}) == 1


def test_ties_are_found_across_components_and_cannot_be_torn() -> None:
    shared = np.ones(3)
    root = tree(p0=leaf({"w": shared, "own": np.zeros(3)}), p1=leaf({"w": shared}))
    assert ties(root) == (("policies/p0/w", "policies/p1/w"),)
    with pytest.raises(TieError) as caught:
        select(root, Selection(components=("policies/p0",)))
    assert "policies/p1/w" in caught.value.found
    assert select(root, Selection(components=("policies/p0",), ties="untie")).children["policies"].children.keys() == {
        "p0"
    }
    assert diff(root, select(root, Selection())).same


def test_empty_arrays_are_never_tied() -> None:
    empty = np.zeros((0, 3))
    assert ties(leaf({"a": empty, "b": empty})) == ()


OWNED = (np.zeros(3), np.zeros(3), np.full((2, 2), np.nan, np.float32), np.ones((0, 2)), np.zeros((2, 2), np.int64))
VIEWS = (
    *(OWNED[0].view(), OWNED[0][::-1], OWNED[0][:2], OWNED[0].view(np.int64), OWNED[4].T, OWNED[2][:]),
    *(np.frombuffer(OWNED[1].data), np.lib.stride_tricks.as_strided(OWNED[4]), np.broadcast_to(OWNED[1], (2, 3))),
)


@given(st.lists(st.sampled_from(range(len(OWNED + VIEWS))), max_size=8))
@example([0, 0, 1])
@example([3, 3, 3])
def test_ties_are_arrays_of_one_place_and_one_look_whoever_owns_the_memory(chosen: list[int]) -> None:
    arrays = {f"k{index}": (OWNED + VIEWS)[number] for index, number in enumerate(chosen)}
    groups: dict[object, list[str]] = {}
    for key, array in arrays.items():
        if array.size:
            place = (array.ctypes.data, array.dtype, array.shape, array.strides)
            groups.setdefault(place, []).append(key)
    expected = sorted(tuple(keys) for keys in groups.values() if len(keys) > 1)
    assert tied(arrays) == tuple(expected)


def test_rename_moves_components_and_keys() -> None:
    root = rename(tree(p1=policy(1)), KeyMap({"policies/p1": "p7"}, {"encoder": "body", "vf/weight": "value"}))
    assert keys(root) == {f"policies/p7/{key}" for key in ("body/0/weight", "body/0/bias", "value", "steps")}


def test_rename_back_is_the_identity() -> None:
    there = rename(policy(1), KeyMap(keys={"encoder": "body"}))
    assert diff(policy(1), rename(there, KeyMap(keys={"body": "encoder"}))).same


def test_two_things_cannot_get_one_name() -> None:
    with pytest.raises(StateMismatchError) as caught:
        rename(tree(p0=policy(0), p1=policy(1)), KeyMap({"policies/p1": "p0"}))
    assert caught.value.unexpected == ("p0",)


def test_a_dead_rename_is_an_error() -> None:
    with pytest.raises(SelectionError):
        rename(policy(0), KeyMap(keys={"encoderr": "body"}))


def test_diff_sorts_findings_into_kinds() -> None:
    found = diff(
        leaf({"same": 1, "gone": 1, "kind": 1, "value": np.zeros(2)}, n=1),
        leaf({"same": 1, "new": 1, "kind": 1.0, "value": np.ones(2)}, n=2),
    )
    assert (found.missing, found.unexpected, found.changed) == (("gone",), ("new",), ("value",))
    assert found.mismatched == ("kind (int expected, float found)",)
    assert found.respecified == ("",)
    assert not found.fits


def test_roles_must_cover_the_state() -> None:
    with pytest.raises(StateMismatchError) as caught:
        Snapshot(Spec("x"), {"a": 1}, {"b": "inference"})
    assert (caught.value.missing, caught.value.unexpected) == (("a",), ("b",))


@pytest.mark.parametrize("name", ["components", "roles", "keys"])
def test_a_text_in_place_of_globs_selects_nothing(name: str) -> None:
    argument: Any = {name: "inference*"}
    with pytest.raises(ConfigError, match="inference"):
        Selection(**argument)
