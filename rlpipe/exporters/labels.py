"""What a user says about an artifact beyond the policy: a name for each element, and free facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlpipe.errors import ConfigError
from rlpipe.exporters.signature import Signature
from rlpipe.snapshot.spec import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Written into `artifact.json` and, with the essentials, into the artifact's own file.

    Attributes:
        names: Tensor name, such as `obs` or `action` -> a name for each element in C order.
        metadata: Plain JSON, such as {"joint_names": [...], "kp": [...], "rate_hz": 50}.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Plain JSON with what is given; {} for nothing."""
        names = {tensor: list(given) for tensor, given in self.names.items()}
        return {**({"names": names} if names else {}), **({"metadata": dict(self.metadata)} if self.metadata else {})}

    def over(self, others: Labels) -> Labels:
        """These and, where they say nothing, the others."""
        return Labels(names={**others.names, **self.names}, metadata={**others.metadata, **self.metadata})

    def fitting(self, signature: Signature) -> Labels:
        """The names that fit a policy's inputs and outputs: other outputs than the action have no recorded names."""
        sizes = _sizes(signature)
        return replace(self, names={name: given for name, given in self.names.items() if sizes.get(name) == len(given)})

    def require_fit(self, signature: Signature, policy_id: str) -> None:
        """Check the names against a policy's inputs and outputs.

        Raises:
            ConfigError: A tensor that is not there, or another number of elements; all of them.
        """
        sizes = _sizes(signature)
        found = [
            f"{len(given)} names for {tensor}" if tensor in sizes else f"names for {tensor}"
            for tensor, given in self.names.items()
            if sizes.get(tensor) != len(given)
        ]
        if found:
            raise ConfigError(
                f"artifact.names does not fit {policy_id}",
                expected=", ".join(f"{size} for {tensor}" for tensor, size in sizes.items()),
                found="; ".join(found),
                fix="give a name for each element, or choose the policies with policy_ids",
            )


def _sizes(signature: Signature) -> dict[str, int]:
    """Tensor name -> how many elements it has."""
    return {spec.name: math.prod(spec.shape) for spec in (*signature.inputs, *signature.outputs)}


def recorded_labels(metadata: Mapping[str, Json]) -> Labels:
    """What an importer noted in a policy's metadata: a name for each element, and facts for whoever deploys it."""
    names, facts = metadata.get("names"), metadata.get("deployment")
    known = names if isinstance(names, Mapping) else {}
    return Labels(
        names={tensor: tuple(given) for tensor, given in known.items() if isinstance(given, (list, tuple))},
        metadata=dict(facts) if isinstance(facts, Mapping) and plain(facts) else {},
    )


def plain(value: Any) -> bool:
    """Whether a value is JSON without NaN and infinity."""
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and plain(item) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(plain, value))
    return value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
