"""What the fault campaign does to a folder of checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rlpipe.checkpoint.directory import locate
from rlpipe.checkpoint.litter import _machine
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.retention import Retention
from rlpipe.checkpoint.series import Series
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Selection, merge
from tests.checkpoint.components import policy, tree

Contents: TypeAlias = dict[str, Any]

LARGE = 2_500_000
"""Numbers of an array that no backend writes at once."""


@dataclass(frozen=True)
class Scenario:
    """Something that changes a folder; done again, it gives the same.

    Attributes:
        prepare: Makes what is in the folder before.
        act: Changes it.
        can_exchange: Whether the system can exchange two directories.
    """

    prepare: Callable[[Path], None]
    act: Callable[[Path], object]
    can_exchange: bool = True


def contents_of(checkpoint: Path) -> Contents:
    """Every file of a checkpoint, byte for byte but for the root's time: equal only for the same checkpoint, whole."""
    root = locate(checkpoint)
    files: Contents = {str(each.relative_to(root)): each.read_bytes() for each in root.rglob("*") if each.is_file()}
    manifest = json.loads(files["manifest.json"])
    del manifest["origin"]["created"], manifest["manifest_hash"]
    return files | {"manifest.json": manifest}


def _nothing(folder: Path) -> None:
    del folder


def _one(folder: Path) -> None:
    write_checkpoint(policy(0), folder / "ckpt")


def _write(folder: Path) -> object:
    return write_checkpoint(tree(1), folder / "ckpt", if_exists="replace")


def _write_for_now(folder: Path) -> object:
    return write_checkpoint(tree(1), folder / "ckpt", if_exists="replace", durability="none")


def _large(folder: Path) -> object:
    """Written in many calls, perhaps by several threads."""
    weight = np.arange(LARGE, dtype=np.float32)
    return write_checkpoint(policy(1, weight=weight), folder / "ckpt", if_exists="replace")


def _litter(folder: Path) -> None:
    _one(folder)
    machine = _machine()
    for name in (f".rlpipe-stage-{machine}-1", f".rlpipe-stage-{machine}-2", ".rlpipe-trash-3"):
        write_checkpoint(policy(3), folder / name)


def _base_and_other(folder: Path) -> None:
    write_checkpoint(tree(2), folder / "base")
    algorithm = tree(2)
    policies = replace(algorithm.children["policies"], children={"p0": policy(5), "p1": policy(7)})
    write_checkpoint(replace(algorithm, children={"policies": policies}), folder / "other")


def _subset_save(folder: Path) -> object:
    patch = read_checkpoint(folder / "other", Selection(components=("policies/p1",)))
    return write_checkpoint(merge(read_checkpoint(folder / "base"), patch), folder / "out", if_exists="replace")


def _slim_save(folder: Path) -> object:
    slim = read_checkpoint(folder / "base", Selection(roles=frozenset({"inference"})))
    return write_checkpoint(slim, folder / "out", backend="pickle", if_exists="replace")


def _save_again(folder: Path) -> object:
    """Two of three policies are linked."""
    algorithm = tree(3)
    policies = algorithm.children["policies"]
    changed = replace(policies, children={**policies.children, "p1": policy(9)})
    again = replace(algorithm, children={"policies": changed})
    return write_checkpoint(again, folder / "out", if_exists="replace", previous=folder / "base")


def _three_policies(folder: Path) -> None:
    write_checkpoint(tree(3), folder / "base")


def _two_checkpoints(folder: Path) -> None:
    weight = np.arange(200_000, dtype=np.float32)
    write_checkpoint(tree(2), folder / "ckpt")
    write_checkpoint(policy(1, weight=weight), folder / "files")


def _attach(folder: Path) -> object:
    """Any folder of files will do, even one that looks like a checkpoint."""
    attachments = {"policies/p1": folder / "files"}
    return write_checkpoint(tree(2), folder / "ckpt", if_exists="replace", attachments=attachments)


def _series(folder: Path) -> Series:
    return Series(folder=folder, run="r", retention=Retention(keep_last=2))


def _two_steps(folder: Path) -> None:
    for step in (8, 9):
        _series(folder).write(policy(step), step=step)


def _next_step(folder: Path) -> object:
    return _series(folder).write(policy(10), step=10)


SCENARIOS = {
    "new": Scenario(_nothing, _write),
    "replacing": Scenario(_one, _write),
    "replacing by two renames": Scenario(_one, _write, can_exchange=False),
    "without fsync": Scenario(_one, _write_for_now),
    "large": Scenario(_one, _large),
    "sweeping": Scenario(_litter, _write),
    "subset save into a base": Scenario(_base_and_other, _subset_save),
    "slim save": Scenario(_base_and_other, _slim_save),
    "attachments": Scenario(_two_checkpoints, _attach),
    "linking": Scenario(_three_policies, _save_again),
    "retention": Scenario(_two_steps, _next_step),
}
