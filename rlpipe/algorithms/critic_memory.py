"""What critics remember along the samples: runners hold what acts, so that only the full policies know it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch

from rlpipe.algorithms.collected import Samples
from rlpipe.algorithms.policy_learner import to_device
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.batch import STATE_IN, STATE_OUT
from rlpipe.modules.torch.probing import place_of
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.policy import evaluating

Memory: TypeAlias = Mapping[str, torch.Tensor]


class CriticMemory:
    """Adds to `state_in` of samples what a critic remembered before their first step.

    It goes on from one call to the next, as the actors' memory does in the runners, and begins anew where
    `episode_start` says so: after a restore everywhere.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Memory] = {}

    def completed(self, samples: Samples, policies: MultiRLModule) -> Samples:
        """The samples with the memory of critics; samples of policies whose critics have none are as they were."""
        return {name: self._with_memory(name, each, policies[name].module) for name, each in samples.items()}

    def _with_memory(self, name: str, samples: dict[str, Any], module: RLModule) -> dict[str, Any]:
        initial = {} if module.inference_only else module.get_initial_train_state()
        if not initial:
            return samples
        before = self._before(name, initial, len(samples["rewards"]), place_of(module))
        state = {**samples.get(STATE_IN, {}), **{each: value.cpu().numpy() for each, value in before.items()}}
        found = {**samples, STATE_IN: state}
        with evaluating(module), torch.no_grad():
            after = module.forward_train(to_device(found, place_of(module)))[STATE_OUT]
        self._kept[name] = {each: after[each] for each in initial}
        return found

    def _before(self, name: str, initial: Mapping[str, Any], rows: int, device: torch.device) -> Memory:
        """What is remembered of these rows; if they are others than before, that of a beginning."""
        kept = self._kept.get(name, {})
        begun = {each: torch.as_tensor(value, device=device) for each, value in initial.items()}
        if {each: value.shape for each, value in kept.items()} == {
            each: (rows, *value.shape) for each, value in begun.items()
        }:
            return kept
        return {each: value.expand(rows, *value.shape) for each, value in begun.items()}
