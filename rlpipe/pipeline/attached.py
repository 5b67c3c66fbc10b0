"""Artifacts inside a checkpoint, which are of its policies as they were and so stay behind when those move on."""

from __future__ import annotations

from collections.abc import Iterable

from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.errors import listed
from rlpipe.pipeline.settings import CheckpointSettings
from rlpipe.pipeline.sources import CheckpointSource, Source


def left_behind(source: Source, policy_ids: Iterable[str], checkpoint: CheckpointSettings) -> tuple[str, ...]:
    """A sentence for each chosen policy to which files are attached; only the manifests of these policies are read.

    Args:
        source: Where they come from.
        policy_ids: Their ids there.
        checkpoint: Where they go; nothing is missed where artifacts are made anew.
    """
    if not isinstance(source, CheckpointSource) or checkpoint.native_models:
        return ()
    found = {policy_id: inspect_checkpoint(source.directory(policy_id)).attachments for policy_id in policy_ids}
    return tuple(
        f"{policy_id}: what is attached to it stays behind ({listed(attached)}); checkpoint.native_models makes it anew"
        for policy_id, attached in found.items()
        if attached
    )
