"""The module in a checkpoint: of a bare module, or inside a policy."""

from __future__ import annotations

import os
from dataclasses import replace

from rlpipe.checkpoint.reader import When, read_checkpoint, read_manifest
from rlpipe.errors import SpecError, listed
from rlpipe.snapshot.selection import Selection
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Spec

STAGE_NAMES = frozenset({"observation", "action"})
"""Names in a policy's state that belong to its stages and not to its module; no module may use them."""

_INFERENCE = Selection(roles=frozenset({"inference"}), ties="untie")


def read_module(path: str | os.PathLike[str], *, inference_only: bool | None, arrays: When = "verify") -> Snapshot:
    """The snapshot of the module in a checkpoint.

    Args:
        path: The directory of a module or of a policy.
        inference_only: True reads no training array; False insists on a full module; None takes what is there.
        arrays: See `read_checkpoint`.

    Raises:
        CheckpointError: There is no checkpoint, or it is damaged.
        SpecError: It is no module and no policy, or it is slim and a full module was asked for.
    """
    spec = read_manifest(path).spec
    if "inference_only" not in spec.options or not {"model_config", "module"} & spec.config.keys():
        children = read_manifest(path).children
        raise SpecError(
            f"{path} is no module",
            expected="the checkpoint of a module or of a policy",
            found=f"{spec.class_path} with {listed(children) or 'nothing'} inside",
            fix="name the directory of one policy, such as policies/p0 inside an algorithm",
        )
    is_slim = bool(spec.options["inference_only"])
    if is_slim and inference_only is False:
        raise SpecError(
            f"{path} was saved for inference only",
            expected="a checkpoint with the training part",
            found="inference_only=True",
            fix="read it with inference_only=True",
        )
    chosen = _INFERENCE if inference_only and not is_slim else Selection()
    return _module_of(read_checkpoint(path, chosen, arrays=arrays))


def _module_of(snapshot: Snapshot) -> Snapshot:
    """The module's part of a policy's snapshot; a module's comes back as it is."""
    if "module" not in snapshot.spec.config:
        return snapshot
    config = dict(snapshot.spec.config["module"])
    return replace(
        snapshot,
        spec=Spec(config.pop("class"), config, snapshot.spec.options),
        state={name: value for name, value in snapshot.state.items() if name not in STAGE_NAMES},
        roles={key: role for key, role in snapshot.roles.items() if key.split("/")[0] not in STAGE_NAMES},
    )
