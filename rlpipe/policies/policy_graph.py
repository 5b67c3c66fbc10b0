"""A policy as one torch module with flat, named tensors in and out: what runs, and what is exported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import torch
from torch import nn

from rlpipe.errors import SpecError, UnsupportedModuleError, listed
from rlpipe.modules.torch.batch import DECISIONS, STATE_IN, STATE_OUT
from rlpipe.policies.acting import Acting, ActingParts, Given
from rlpipe.policies.extra_outputs import extra_output
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.history_modules import Past
from rlpipe.policies.interface import (
    ACTION_MASK,
    EPISODE_START,
    FEATURES,
    NEXT,
    NOISE,
    OBSERVATION,
    STATE,
    Port,
    action_parts,
    input_ports,
    masks_of,
    output_ports,
)
from rlpipe.policies.module_parts import features_of
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.policies.stage import build_chain
from rlpipe.snapshot.spaces import Box, flat_items, nested_batch
from rlpipe.snapshot.state import State

Named: TypeAlias = Mapping[str, torch.Tensor]

_NARROW = frozenset({"float16", "float32"})
"""Dtypes of actions that are computed in float32."""

PLAIN = GraphOptions()


@dataclass(frozen=True)
class Thought:
    """What a policy makes of one step.

    Attributes:
        outputs: What its module puts out.
        kept: What is remembered of the step: of the stages, then of the module.
        batch: What its module was given.
    """

    outputs: Mapping[str, Any]
    kept: list[torch.Tensor]
    batch: Mapping[str, Any] = field(default_factory=dict)


class PolicyGraph(nn.Module):
    """Observation stages, module and action stages in one, as a pure function of one step whose rows are independent.

    Attributes:
        input_names: `obs`, or `obs.<key>` for each leaf of the observation space, sorted at every level; `state.<i>`
            and `episode_start` of a policy that remembers; `action_mask` and `noise` where they are used.
        output_names: `action`, or `action.<key>` for each leaf of the action space; `state.<i>.next`; what else was
            asked for.
        action: From the decision (B, n), and what is given beside it, to the actions.
        action_parts: The leaves of the action, in the order of the decision's blocks.
    """

    def __init__(self, spec: PolicySpec, module: nn.Module, statistics: State, options: GraphOptions = PLAIN) -> None:
        super().__init__()
        self.space, self.options = spec.observation_space, options
        inputs, outputs = input_ports(spec, options), output_ports(spec, options)
        self.observation_names = tuple(name for name, _ in flat_items(spec.observation_space, OBSERVATION))
        self.input_names = tuple(port.name for port in inputs)
        features = (FEATURES,) if options.component is not None else ()
        self.output_names = (*features, *(port.name for port in outputs))
        memory = [port for port in inputs if port.name.partition(".")[0] == STATE]
        self.stage_memory = tuple(port.name for port in memory if not port.memory)
        self.module_memory = {port.memory: port.name for port in memory if port.memory}
        self.observation = build_chain(spec.observation, spec.observation_space, statistics).eval()
        self.module = module
        self.action_parts = parts = action_parts(spec, options)
        self.width = sum(prod(part.decision.shape) for part in parts)
        self.action_names = tuple(part.name for part in parts)
        self.action = (Acting(parts[0]) if len(parts) == 1 else ActingParts(parts)).eval()
        mask = masks_of(spec)
        self.mask_name = "" if mask is None else (f"{OBSERVATION}.{mask.key}" if mask.key else ACTION_MASK)
        self.is_wide = not isinstance(spec.action_space, Box) or spec.action_space.dtype.name not in _NARROW
        self._remember(memory)

    def _remember(self, memory: list[Port]) -> None:
        """Keep what the module remembers before an episode; what stages do is zeros."""
        self._initial = {port.name: f"initial_{index}" for index, port in enumerate(memory) if port.memory}
        for index, port in enumerate(memory):
            if port.memory:
                value = torch.zeros(port.shape, dtype=getattr(torch, port.dtype))
                self.register_buffer(f"initial_{index}", value, persistent=False)
        self.refresh()

    def refresh(self) -> None:
        """Ask the module again what it remembers before an episode; it may have learnt that."""
        if not self.module_memory:
            return
        initial = self.module.get_initial_state()  # type: ignore[operator]
        for name, port in self.module_memory.items():
            held = self.get_buffer(self._initial[port])
            held.copy_(torch.as_tensor(initial[name]).detach())

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Tensors (B, ...) in the order of `input_names` to those of `output_names`; a single one comes alone."""
        found = self.answer(dict(zip(self.input_names, inputs, strict=True)))
        outputs = tuple(found[name] for name in self.output_names)
        return outputs[0] if len(outputs) == 1 else outputs

    def answer(self, named: Named) -> dict[str, torch.Tensor]:
        """The outputs by name, for inputs by name."""
        if self.options.component is not None:
            features, thought = features_of(self.module, self.options.component, lambda: self.think(named))
            return {FEATURES: features, **self._kept(thought)}
        thought = self.think(named)
        decision, given = self.decided(thought, named)
        actions = self.action(decision, given)
        actions = (actions,) if isinstance(actions, torch.Tensor) else actions
        return {
            **dict(zip(self.action_names, actions, strict=True)),
            **self._kept(thought),
            **{name: self._extra(name, thought) for name in self.options.outputs},
        }

    def features(self, named: Named) -> tuple[tuple[int, ...], str]:
        """Shape of a component's features, without the batch, and their dtype."""
        with torch.inference_mode():
            found = self.answer(named)[FEATURES]
        return tuple(found.shape[1:]), str(found.dtype).removeprefix("torch.")

    def think(self, named: Named) -> Thought:
        """Prepare the observation and ask the module."""
        return self._thought(
            named, self.module.forward_exploration if self.options.samples else self.module.forward_inference
        )

    def wander(self, named: Named) -> Thought:
        """As `think`, but the module is asked for what exploring needs, whatever the options."""
        return self._thought(named, self.module.forward_exploration)

    def _thought(self, named: Named, ask: Any) -> Thought:
        nested, past = self._nested(named)
        batch: dict[str, Any] = {"obs": self.observation(nested, past)}
        if self.module_memory:
            batch[STATE_IN] = {name: self._begun(named, port) for name, port in self.module_memory.items()}
        outputs: Mapping[str, Any] = ask(batch)
        return Thought(outputs, [*past.kept, *self._module_kept(outputs)], batch)

    def prepared(self, named: Named, *, stages: int | None = None) -> Any:
        """What the module is given for inputs (B, ...) by name, or what comes out of the first stages."""
        nested, past = self._nested(named)
        chain = self.observation if stages is None else self.observation[:stages]
        return chain(nested, past)

    def _nested(self, named: Named) -> tuple[Any, Past]:
        """The observations as their space nests them, and what the stages remember."""
        past = Past((named[name] for name in self.stage_memory), named.get(EPISODE_START))
        return nested_batch(self.space, {name: named[name] for name in self.observation_names}, OBSERVATION), past  # type: ignore[misc]

    def _begun(self, named: Named, port: str) -> torch.Tensor:
        """What the module remembers, put back where an episode begins."""
        held = named[port]
        begins = named[EPISODE_START].reshape(-1, *[1] * (held.dim() - 1))
        return torch.where(begins, self.get_buffer(self._initial[port]), held)

    def _module_kept(self, outputs: Mapping[str, Any]) -> list[torch.Tensor]:
        found = outputs.get(STATE_OUT, {})
        if self.module_memory and found.keys() != self.module_memory.keys():
            raise SpecError(
                "the module gives back another memory than it is given",
                expected=f"{STATE_OUT} with {listed(self.module_memory)}",
                found=listed(map(str, found)) or "nothing",
                fix="put out state_out with the names of get_initial_state()",
            )
        return [found[name] for name in self.module_memory]

    def _kept(self, thought: Thought) -> dict[str, torch.Tensor]:
        return {f"{STATE}.{index}{NEXT}": value for index, value in enumerate(thought.kept)}

    def decided(self, thought: Thought, named: Named) -> tuple[torch.Tensor, Given]:
        """The decision (B, n), and what actions are made of beside it."""
        decision = decided_by(thought.outputs)
        if prod(decision.shape[1:]) != self.width:
            raise SpecError(
                "the module's output does not fit the action space",
                expected=f"{self.width} numbers for each observation",
                found=f"shape {tuple(decision.shape)}",
                fix="give the network another output size, or name other action stages",
            )
        mask = named[self.mask_name] if self.mask_name else None
        noise, log_std = named.get(NOISE), None
        if noise is not None:
            log_std = self._spread(thought)
        allowed = mask if mask is None or mask.dtype == torch.bool else mask != 0
        return self._in_stage_dtype(decision), Given(mask=allowed, noise=noise, log_std=log_std)

    def _spread(self, thought: Thought) -> torch.Tensor | None:
        """What real numbers are drawn with.

        Raises:
            UnsupportedModuleError: The module puts out nothing that could be drawn from.
        """
        log_std = thought.outputs.get("log_std")
        if log_std is not None or decision_name(thought.outputs) == "logits":
            return None if log_std is None else self._in_stage_dtype(log_std)
        raise UnsupportedModuleError(
            "export.mode=stochastic needs a module that says how its actions are spread",
            expected="logits of choices, or a mean with log_std, in forward_exploration",
            found=listed(map(str, thought.outputs)),
            fix="export.mode=deterministic",
        )

    def _extra(self, name: str, thought: Thought) -> torch.Tensor:
        return extra_output(name, thought.outputs, thought.batch, self.module, remembers=tuple(self.module_memory))

    def _in_stage_dtype(self, decision: torch.Tensor) -> torch.Tensor:
        """What the network computed in another float type, as the stages take it; float64 stays where it is of use."""
        is_kept = not decision.is_floating_point() or (decision.dtype == torch.float64 and self.is_wide)
        return decision if is_kept or decision.dtype == torch.float32 else decision.to(torch.float32)

    def decision(self, named: Named) -> torch.Tensor:
        """What the module puts out, before any action stage: (B, n)."""
        return self.decided(self.think(named), named)[0]

    def weighed(self, named: Named) -> torch.Tensor:
        """What the first stage that chooses is given; without one, what the module puts out: (B, ...)."""
        return self.action.scores(*self.decided(self.think(named), named))

    def sureness(self, named: Named) -> torch.Tensor:
        """(B,): by how much the least sure choice is ahead of the next; infinite where nothing is chosen."""
        return self.action.margin(*self.decided(self.think(named), named))


def decided_by(outputs: Any) -> torch.Tensor:
    """The one output that decides; see `decision_name`."""
    decision: torch.Tensor = outputs[decision_name(outputs)]
    return decision


def decision_name(outputs: Any) -> str:
    """The name of the one output that decides.

    Raises:
        SpecError: There is none, or there are several.
    """
    found = [name for name in DECISIONS if name in outputs]
    if len(found) == 1:
        return found[0]
    raise SpecError(
        "the module's inference has to put out one thing that decides",
        expected=f"one of {', '.join(DECISIONS)}",
        found=", ".join(outputs) or "nothing",
    )
