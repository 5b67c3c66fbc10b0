"""Policies with the same weights are told, from manifests alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rlpipe.checkpoint.identical import identical_notes, identical_policies
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Snapshot
from tests.checkpoint.components import policy, tree


def pool(tmp_path: Path, **policies: Snapshot) -> Path:
    whole = tree(0)
    container = replace(whole.children["policies"], children=policies)
    return write_checkpoint(replace(whole, children={"policies": container}), tmp_path / "ckpt")


def test_none(tmp_path: Path) -> None:
    path = pool(tmp_path, a=policy(1), b=policy(2))
    assert identical_policies(inspect_checkpoint(path)) == ()
    assert verify_checkpoint(path).notes == ()


def test_a_pool_of_one_self(tmp_path: Path) -> None:
    path = pool(tmp_path, main=policy(1), main_v3=policy(2), main_v4=policy(2), x=policy(1), other=policy(3))
    for file in path.rglob("state.h5"):
        file.write_bytes(b"")  # not looked at
    info = inspect_checkpoint(path)
    assert identical_policies(info) == (
        ("policies/main", "policies/x"),
        ("policies/main_v3", "policies/main_v4"),
    )
    assert identical_notes(info)[1] == "policies/main_v3 = main_v4: identical weights"


def test_counters_and_training_arrays_do_not_count(tmp_path: Path) -> None:
    one, two = policy(2), policy(2)
    two.state["steps"] = 99
    two.state["vf"]["weight"] = two.state["vf"]["weight"] + 1
    assert identical_policies(inspect_checkpoint(pool(tmp_path, a=one, b=two))) == (("policies/a", "policies/b"),)


def test_weights_under_other_names_are_others(tmp_path: Path) -> None:
    one, two = policy(2), policy(2)
    two.state["encoder"]["0"]["kernel"] = two.state["encoder"]["0"].pop("weight")
    two = replace(
        two, roles={key.replace("encoder/0/weight", "encoder/0/kernel"): role for key, role in two.roles.items()}
    )
    assert identical_policies(inspect_checkpoint(pool(tmp_path, a=one, b=two))) == ()


def test_policies_without_arrays_are_not_compared(tmp_path: Path) -> None:
    empty = replace(policy(0), state={}, roles={})
    assert identical_policies(inspect_checkpoint(pool(tmp_path, a=empty, b=empty))) == ()


def test_verify_says_so(tmp_path: Path) -> None:
    report = verify_checkpoint(pool(tmp_path, main_v3=policy(2), main_v4=policy(2)))
    assert report.ok
    assert report.notes == ()
    assert report.identical == (("policies/main_v3", "policies/main_v4"),)
