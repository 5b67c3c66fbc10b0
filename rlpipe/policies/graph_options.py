"""What of a policy is exported: how it decides, how far its actions go, and what else it puts out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from rlpipe.errors import ConfigError, closest, listed

Mode: TypeAlias = Literal["deterministic", "stochastic"]
"""`stochastic` draws actions with a `noise` that is given, so that the policy stays a pure function."""

Reach: TypeAlias = Literal["env", "raw", "target"]
"""`env`: what the environment takes. `raw`: before it is squashed, unscaled, clipped and rounded. `target`: what an
actuator is given, behind the policy's target stages."""

Extra: TypeAlias = Literal["logits", "mean", "log_std", "value"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)
"""What a policy can put out beside its action, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions:
    """How a policy is turned into one function.

    Attributes:
        mode: Whether it draws.
        action: How far its actions go.
        outputs: What it puts out beside them; any order, kept in that of `EXTRAS`.
        component: Path of a part of the module whose features are put out instead of actions: "encoder", or a
            submodule such as "net.trunk"; None for the whole policy.

    Raises:
        ConfigError: An unknown value, or options that exclude each other.
    """

    mode: Mode = "deterministic"
    action: Reach = "env"
    outputs: tuple[Extra, ...] = ()
    component: str | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        _require("mode", self.mode, get_args(Mode))
        _require("action", self.action, get_args(Reach))
        for output in self.outputs:
            _require("outputs", output, EXTRAS)
        object.__setattr__(self, "outputs", tuple(name for name in EXTRAS if name in self.outputs))
        if self.component is not None and (self.mode, self.action, self.outputs) != ("deterministic", "env", ()):
            raise ConfigError(
                f"export.component={self.component} puts out features, and no actions",
                expected="no export.mode, export.action and export.outputs beside it",
                found=f"mode={self.mode}, action={self.action}, outputs={list(self.outputs)}",
                fix="export the component alone, and the policy in another run",
            )

    @property
    def samples(self) -> bool:
        """Whether actions are drawn."""
        return self.mode == "stochastic"

    @property
    def acts(self) -> bool:
        """Whether what comes out are actions that an environment takes."""
        return self.action == "env" and self.component is None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON with every field."""
        return {
            "mode": self.mode,
            "action": self.action,
            "outputs": list(self.outputs),
            "component": self.component,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> GraphOptions:
        """The inverse of `to_json`."""
        return cls(**{**value, "outputs": tuple(value["outputs"])})


def _require(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value in known:
        return
    near = closest(str(value), known)
    raise ConfigError(
        f"export.{name} is unknown",
        expected=listed(known),
        found=repr(value)[:80],
        fix=f"did you mean {' or '.join(near)}?" if near else f"export.{name}={known[0]}",
    )
