"""What a policy is given beside its observations, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import ObservationError, listed
from rlpipe.policies.interface import ACTION_MASK, EPISODE_START, STATE, Port
from rlpipe.policies.observations import Observations
from rlpipe.snapshot.state import Array

_FIXES: Mapping[str, str] = MappingProxyType(
    {
        STATE: "give what the last step returned for as many rows, or state=None at the start of episodes",
        EPISODE_START: "give (B,) bool, True for the rows that begin an episode; or leave it out",
        ACTION_MASK: "give (B, n) bool over all choices, the parts of MultiDiscrete behind each other; None allows all",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """As the caller gave it; see `Policy.step`.

    Attributes:
        state: What is remembered, or None at the start of episodes.
        episode_start: Which rows begin an episode.
        action_mask: What is allowed.
    """

    state: Mapping[str, Any] | None = None
    episode_start: Any = None
    action_mask: Any = None

    def arrays(self, ports: Sequence[Port], read: Observations) -> dict[str, Array]:
        """Input name -> (B, ...), for every input that is no observation.

        Args:
            ports: The inputs of the policy.
            read: The observations.

        Raises:
            ObservationError: Something is not what the policy takes, or it does not take it at all.
        """
        rows = len(next(iter(read.arrays.values())))
        memory = [port for port in ports if port.name.partition(".")[0] == STATE]
        masks = [port for port in ports if port.name == ACTION_MASK]
        self._require_used(memory, masks)
        found = self._memory(memory, rows)
        if memory:
            starts = np.full(rows, self.state is None) if self.episode_start is None else self.episode_start
            found[EPISODE_START] = _checked(EPISODE_START, starts, (), np.dtype(np.bool_), rows, read)
        for port in masks:
            mask = np.ones((rows, *port.shape), np.bool_) if self.action_mask is None else self.action_mask
            found[port.name] = _checked(port.name, mask, port.shape, np.dtype(np.bool_), rows, read)
        return found

    def _require_used(self, memory: Sequence[Port], masks: Sequence[Port]) -> None:
        useless = [
            name
            for name, given, ports in (
                ("state", self.state, memory),
                ("episode_start", self.episode_start, memory),
                ("action_mask", self.action_mask, masks),
            )
            if given is not None and not ports and not (name == "state" and not given)
        ]
        if useless:
            expected = "nothing of a memory" if "action_mask" not in useless else "no action_mask"
            raise ObservationError(
                f"the policy does not use {listed(useless)}",
                expected=expected,
                found=listed(useless),
                fix=f"leave {listed(useless)} out",
            )

    def _memory(self, ports: Sequence[Port], rows: int) -> dict[str, Array]:
        if self.state is None:
            return {port.name: np.zeros((rows, *port.shape), port.dtype) for port in ports}
        names = {port.name for port in ports}
        if self.state.keys() != names:
            raise ObservationError(
                "this is no state of the policy",
                expected=listed(names),
                found=listed(map(str, self.state)) or "nothing",
                fix=_FIXES[STATE],
            )
        return {
            port.name: _checked(port.name, self.state[port.name], port.shape, np.dtype(port.dtype), rows, None)
            for port in ports
        }


def _checked(
    name: str, given: Any, shape: tuple[int, ...], dtype: np.dtype[Any], rows: int, read: Observations | None
) -> Array:
    """An array (B, *shape); without the batch axis where there is a single observation."""
    array = np.asarray(given)
    if read is not None and read.is_single and array.shape == shape:
        array = array[None]
    if array.shape == (rows, *shape) and array.dtype == dtype:
        return np.ascontiguousarray(array)
    raise ObservationError(
        f"{name} does not fit",
        expected=f"{dtype} {[rows, *shape]}",
        found=f"{array.dtype} {list(array.shape)}",
        fix=_FIXES[name.partition(".")[0]],
    )
