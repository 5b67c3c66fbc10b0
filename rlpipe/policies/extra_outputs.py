"""What a policy puts out beside its actions: logits, mean, log_std, value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from rlpipe.errors import UnsupportedModuleError, listed
from rlpipe.modules.torch.batch import STATE_OUT


def extra_output(
    name: str, outputs: Mapping[str, Any], batch: Mapping[str, Any], module: Any, *, remembers: Collection[str]
) -> torch.Tensor:
    """(B, ...) float32: what a policy puts out beside its actions.

    Args:
        name: One of `EXTRAS`.
        outputs: What the module put out for the batch.
        batch: What it was given.
        module: The module.
        remembers: Names of what acting remembers.

    Raises:
        UnsupportedModuleError: The module does not put that out.
    """
    if name == "log_std" and name not in outputs:
        outputs = module.forward_exploration(batch)
    if name == "value":
        outputs = {name: _value(batch, module, remembers)}
    if name not in outputs:
        raise UnsupportedModuleError(
            f"export.outputs={name} is not what the module puts out",
            expected=f"{name} among its outputs",
            found=listed(map(str, outputs)),
            fix="leave it out of export.outputs",
        )
    value: torch.Tensor = outputs[name]
    return (value if name == "value" else value.flatten(1)).to(torch.float32)


def _value(batch: Mapping[str, Any], module: Any, remembers: Collection[str]) -> torch.Tensor:
    """(B,) values, of the step as a sequence of one where the module remembers.

    Raises:
        UnsupportedModuleError: The module has no value function, or one with a memory of its own.
    """
    slim = getattr(module, "inference_only", False)
    given = dict(batch)
    if remembers:
        given["obs"] = _with_steps(given["obs"])
    outputs = {} if slim else module.forward_train(given)
    own = outputs.get(STATE_OUT, {}).keys() - set(remembers)
    if "value" not in outputs or own:
        raise UnsupportedModuleError(
            "export.outputs=value needs a value function that acting can ask",
            expected="a full policy whose forward_train puts out value, without a memory of its own",
            found="a policy that was saved for inference only"
            if slim
            else (f"a critic that remembers {listed(own)}" if own else listed(map(str, outputs))),
            fix="leave value out of export.outputs"
            + (", or export a checkpoint with its training part" if slim else ""),
        )
    value: torch.Tensor = outputs["value"]
    return value.reshape(value.shape[0])


def _with_steps(observations: Any) -> Any:
    """(B, ...), perhaps nested, as sequences of one step, (B, 1, ...)."""
    if isinstance(observations, Mapping):
        return {name: _with_steps(value) for name, value in observations.items()}
    return observations.unsqueeze(1)
