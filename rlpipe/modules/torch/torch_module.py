"""A user's own torch network as an RL module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from rlpipe.checkpoint.classes import resolve_class
from rlpipe.errors import SpecError
from rlpipe.modules.fields import choice, flag, refuse_unknown
from rlpipe.modules.torch.batch import STATE_IN, STATE_OUT, Batch, Outputs
from rlpipe.modules.torch.rl_module import RLModule

OUTPUTS = ("logits", "mean", "squashed", "q", "action")
"""What the network can put out: see `rlpipe.policies.default_stages.OutputKind`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchModuleConfig:
    """A network and what it puts out.

    Attributes:
        network: The class, or its dotted path; "class" in a config.
        kwargs: Its keyword arguments, plain data.
        output: logits, mean, squashed (a mean before tanh), q or action.
        parts: It takes a Dict or Tuple of observations as a dict, and not in one row.
    """

    network: str | type[nn.Module]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    output: str = "logits"
    parts: bool = False

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> TorchModuleConfig:
        """The config of a plain mapping.

        Raises:
            SpecError: A field is unknown, missing or of the wrong type.
        """
        refuse_unknown(value, ("class", "kwargs", "output", "parts"), where="model_config")
        network, kwargs = value.get("class"), value.get("kwargs", {})
        if not isinstance(network, (str, type)):
            expected = "class: an nn.Module class or its dotted path"
            raise SpecError("model_config names no network", expected=expected, found=repr(network))
        if not isinstance(kwargs, Mapping):
            raise SpecError("model_config.kwargs is no mapping", expected="keyword arguments", found=repr(kwargs)[:80])
        output = choice(value.get("output", "logits"), OUTPUTS, where="model_config.output")
        parts = flag(value.get("parts", False), where="model_config.parts")
        return cls(network=network, kwargs=kwargs, output=output, parts=parts)


class TorchModule(RLModule):
    """Any nn.Module as an RL module, under the attribute `net`.

    The network maps prepared observations (B, ...), or nested dicts of them, to a tensor, or to a dict with one under
    the name of its output. Paths of non-inference attributes start at `net`, such as "net.value_head".

    One that remembers has `get_initial_state()`, a dict of tensors without a batch axis. It is called with the
    observations and with such a dict of tensors (B, ...), and puts out a pair: the output, and the next dict.

    The config is {"class": dotted path or class, "kwargs": {...}, "output": one of `OUTPUTS`}.
    """

    @classmethod
    def full_model_config(cls, model_config: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `TorchModuleConfig`."""
        config = TorchModuleConfig.read(model_config)
        # Left out where it says nothing, so that it changes no hash.
        parts = {"parts": True} if config.parts else {}
        return {"class": config.network, "kwargs": config.kwargs, "output": config.output, **parts}

    @classmethod
    def sees_parts(cls, model_config: Mapping[str, Any]) -> bool:
        """What the config says."""
        return bool(model_config.get("parts", False))

    def setup(self) -> None:
        """Build the network.

        Raises:
            UntrustedClassError: Its path is not trusted.
        """
        config = TorchModuleConfig.read(self.model_config)
        kind = resolve_class(str(config.network), nn.Module, trust=self.trust)
        self.net: nn.Module = kind(**config.kwargs)
        self.output = config.output

    def output_kind(self) -> str:
        """What the config says."""
        return self.output

    def get_initial_state(self) -> dict[str, Any]:
        """What the network says; {} where it says nothing."""
        ask = getattr(self.net, "get_initial_state", None)
        return {} if ask is None else dict(ask())

    def forward_inference(self, batch: Batch) -> Outputs:
        """The network's output under its name, (B, ...), and `state_out` of one that remembers."""
        name = "mean" if self.output == "squashed" else self.output
        if not self._memory:
            return {name: self._tensor(name, self.net(batch["obs"]))}
        found = self.net(batch["obs"], batch[STATE_IN])
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping)):
            raise SpecError(
                f"the network {self.model_config['class']} has a get_initial_state, and gives no memory back",
                expected=f"a pair: {name}, and a dict of {', '.join(self._memory)}",
                found=type(found).__name__,
            )
        return {name: self._tensor(name, found[0]), STATE_OUT: dict(found[1])}

    def _tensor(self, name: str, found: Any) -> torch.Tensor:
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        if isinstance(found, torch.Tensor):
            return found
        kinds = f"a dict of {', '.join(map(str, found))}" if isinstance(found, Mapping) else type(found).__name__
        raise SpecError(
            f"the network {self.model_config['class']} puts out no {name}",
            expected=f"a tensor, or a dict with one under {name!r}",
            found=kinds,
        )
