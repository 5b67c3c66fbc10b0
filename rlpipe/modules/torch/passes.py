"""Passes through encoders: each is handed its memory, and what they keep is collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from rlpipe.errors import SpecError, listed
from rlpipe.modules.torch.batch import STARTS, STATE_IN, STATE_OUT, Batch, Outputs
from rlpipe.modules.torch.recurrent import RecurrentEncoder, per_step, rows_and_steps
from rlpipe.snapshot.state import Array


class Step:
    """One step of a batch, (B, ...). The memory of an encoder called `where` is `<where>/h`, and so on."""

    begins_anew: ClassVar[bool] = False
    """Whether `state_in` may lack the whole memory of an encoder, which then begins at zeros."""

    def __init__(self, batch: Batch) -> None:
        self._given: Mapping[str, torch.Tensor] = batch.get(STATE_IN) or {}
        self._kept: dict[str, Any] = {}

    def through(self, where: str, encoder: torch.nn.Module, x: Any) -> torch.Tensor:
        """What an encoder makes of `x`.

        Raises:
            SpecError: It has a memory that `state_in` lacks.
        """
        if not isinstance(encoder, RecurrentEncoder):
            features: torch.Tensor = encoder(x)
            return features
        features, memory = encoder(x, self._memory(where, encoder))
        self._keep(where, memory)
        return features

    def _memory(self, where: str, encoder: RecurrentEncoder) -> dict[str, torch.Tensor]:
        names = {f"{where}/{name}": name for name in encoder.rnn.kept}
        missing = names.keys() - self._given.keys()
        if missing and not (self.begins_anew and missing == names.keys()):
            raise SpecError(
                f"the encoder {where} keeps a memory, and the batch lacks it",
                expected=f"state_in with {listed(names)}",
                found=listed(missing) + " missing",
                fix="begin with get_initial_state(), repeated for each row, and hand on state_out",
            )
        return {name: self._given[full] for full, name in names.items() if full not in missing}

    def _keep(self, where: str, memory: Mapping[str, torch.Tensor]) -> None:
        self._kept.update({f"{where}/{name}": value for name, value in memory.items()})

    def outputs(self, found: Mapping[str, Any]) -> Outputs:
        """The outputs, with `state_out` if something is remembered."""
        return {**found, STATE_OUT: self._kept} if self._kept else dict(found)


class Sequence(Step):
    """Steps of several rows, (B, T, ...). `episode_start` (B, T) of the batch says where episodes begin.

    A memory that `state_in` lacks begins at zeros, so that the critic's can be left out.
    """

    begins_anew: ClassVar[bool] = True

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._starts: torch.Tensor | None = batch.get(STARTS)

    def through(self, where: str, encoder: torch.nn.Module, x: Any) -> torch.Tensor:
        """See `Step.through`."""
        if not isinstance(encoder, RecurrentEncoder):
            return per_step(x, encoder)
        rows, _ = rows_and_steps(x)
        features, memory = encoder.sequence(x, self._memory(where, encoder) or _zeros(encoder, rows), self._starts)
        self._keep(where, memory)
        return features


def _zeros(encoder: RecurrentEncoder, rows: int) -> dict[str, torch.Tensor]:
    like = next(encoder.rnn.parameters())
    shapes = {name: value.shape for name, value in encoder.initial_memory().items()}
    return {name: like.new_zeros(rows, *shape) for name, shape in shapes.items()}


def initial_state(**encoders: torch.nn.Module | None) -> dict[str, Array]:
    """What the encoders remember before the first step, without a batch axis; `<where>/h` and so on."""
    return {
        f"{where}/{name}": value
        for where, encoder in encoders.items()
        if isinstance(encoder, RecurrentEncoder)
        for name, value in encoder.initial_memory().items()
    }
