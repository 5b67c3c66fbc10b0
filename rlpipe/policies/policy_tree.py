"""The policies of a checkpoint, whatever checkpoint it is: of one policy, a container, or an algorithm."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rlpipe.checkpoint.reader import When, find_component, read_checkpoint, read_manifest
from rlpipe.checkpoint.restore import build
from rlpipe.errors import SpecError
from rlpipe.snapshot.selection import Selection
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.texts import require_texts

CONTAINER = "policies"
"""Name of the container inside an algorithm."""

_PLAIN_CONTAINER = Spec("rlpipe.modules.multi_rl_module.MultiRLModule")


@dataclass(frozen=True)
class PolicyTree:
    """Policies that were read.

    Attributes:
        root: A container of policies, or one policy.
        is_single: The checkpoint is one policy.
    """

    root: Snapshot
    is_single: bool


def read_policies(
    path: str | os.PathLike[str], policy_ids: Collection[str] | None, *, arrays: When = "verify"
) -> PolicyTree:
    """Read the chosen policies of a checkpoint; no file of another one is opened.

    Args:
        path: A checkpoint of an algorithm, a container or a policy.
        policy_ids: Ids or globs, None for all; only where there are several policies.
        arrays: See `read_checkpoint`.

    Raises:
        ConfigError: The ids are no list of different, non-empty texts.
        CheckpointError: There is no checkpoint, or it is damaged.
        SelectionError: An id that is not there.
        SpecError: It holds no policies, or is a single one and ids are given.
        TieError: A chosen policy shares arrays with something that is not chosen.
    """
    wanted = None if policy_ids is None else require_texts("policy_ids", policy_ids, of="policy ids")
    manifest = read_manifest(path)
    is_single = is_policy(manifest.spec)
    if not manifest.children and not is_single:
        raise SpecError(
            f"{path} holds no policies", expected="a checkpoint of policies", found=manifest.spec.class_path
        )
    if is_single and policy_ids is not None:
        raise SpecError(f"{path} is one policy", expected="policy_ids=None", found=repr(policy_ids))
    container = find_component(path, CONTAINER) if CONTAINER in manifest.children else path
    chosen = Selection(components=wanted)
    root = read_checkpoint(container, chosen, arrays=arrays)
    if policy_ids is not None:
        root = Snapshot(_PLAIN_CONTAINER, children=root.children)
    return PolicyTree(root, is_single)


def is_policy(spec: Spec) -> bool:
    """Whether the spec is a policy's, of whatever class."""
    return {"module", "observation", "action"} <= spec.config.keys()


def build_policies(tree: PolicyTree, *, device: str, trust: tuple[str, ...]) -> dict[str, Any]:
    """Build policies that were read: id -> policy in eval mode, tied as they were."""
    root: Any = build(tree.root, device=device, trust=trust)
    policies = {"": root} if tree.is_single else dict(root.items())
    for policy in policies.values():
        policy.module.eval()
    return policies
