"""The flat named tensors of a policy: what one step of it takes and gives. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias, cast

import numpy as np

from rlpipe.errors import UnsupportedModuleError, listed
from rlpipe.policies.action_stages import Clip, Round, Tanh, Unscale
from rlpipe.policies.array_stages import Cast
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.mask_stages import Mask
from rlpipe.policies.part_stages import Parts
from rlpipe.policies.policy_spec import PolicySpec, decision_space
from rlpipe.policies.stage import Memory, Stage, memories, through
from rlpipe.snapshot.spaces import Box, Leaf, flat_items

OBSERVATION, ACTION, STATE, NEXT = "obs", "action", "state", ".next"
EPISODE_START, ACTION_MASK, NOISE, FEATURES = "episode_start", "action_mask", "noise", "features"

Distribution: TypeAlias = Literal["", "normal", "uniform"]

_BOUNDING = (Clip, Round, Tanh, Unscale, Cast)
"""What lies between a raw action and the environment's; the first of them ends the raw one."""

_BOOL = np.dtype(np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One tensor.

    Attributes:
        name: Such as `obs`, `state.0`, `action.1`.
        dtype: A numpy dtype name.
        shape: Without the batch.
        leaf: The part of a space whose values it holds; None where it is none.
        distribution: Of noise.
        memory: What the module calls it, if it is a memory of the module.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    leaf: Leaf | None = None
    distribution: Distribution = ""
    memory: str = ""


@dataclass(frozen=True, slots=True)
class ActionPart:
    """One leaf of the action: where it comes from and how far it goes.

    Attributes:
        name: `action`, or `action.<key>`.
        decision: What its stages are given.
        stages: What leads to it.
        leaf: The space of what comes out.
    """

    name: str
    decision: Box
    stages: tuple[Stage, ...]
    leaf: Leaf

    @property
    def decides(self) -> bool:
        """Whether it chooses."""
        return any(stage.decides for stage in self.stages)


def action_parts(spec: PolicySpec, options: GraphOptions) -> tuple[ActionPart, ...]:
    """The leaves of the action, in the order of the module's row of decisions.

    Raises:
        UnsupportedModuleError: The policy has no target stages, and they are asked for.
    """
    if options.action == "target" and not spec.target:
        raise UnsupportedModuleError(
            "export.action=target asks for what an actuator is given",
            expected="a policy with target stages, such as an affine one",
            found="none",
            fix="export.action=env; importers fill the target stages where the trainer's files name scale and offset",
        )
    leaves = flat_items(spec.action_space, ACTION)
    if isinstance(spec.action[0] if spec.action else None, Parts):
        blocks = spec.action[0].blocks()  # type: ignore[attr-defined]
        return tuple(
            _part(name, block, stages, leaf, spec, options)
            for (name, leaf), (_, block, stages) in zip(leaves, blocks, strict=True)
        )
    ((name, leaf),) = leaves
    return (_part(name, decision_space(spec.action_space, spec.action), spec.action, leaf, spec, options),)


def _part(
    name: str, decision: Box, stages: tuple[Stage, ...], leaf: Leaf, spec: PolicySpec, options: GraphOptions
) -> ActionPart:
    if options.action == "target":
        return _reaching(name, decision, (*stages, *spec.target), leaf, spec.target)
    if options.action == "raw" and not any(stage.decides for stage in stages):
        ends = [index for index, stage in enumerate(stages) if isinstance(stage, _BOUNDING)]
        kept = stages[: ends[0]] if ends else stages
        return _reaching(name, decision, kept, decision, kept)
    return ActionPart(name, decision, stages, leaf)


def _reaching(name: str, decision: Box, stages: tuple[Stage, ...], start: Leaf, last: tuple[Stage, ...]) -> ActionPart:
    # Stages of one leaf lead to one leaf.
    return ActionPart(name, decision, stages, cast("Leaf", through(last, start)))


def memory_of(spec: PolicySpec) -> tuple[Memory, ...]:
    """What the policy carries through an episode: of its stages, then of its module, sorted by name."""
    of_module = (Memory(tuple(part["shape"]), part["dtype"], name) for name, part in sorted(spec.module.state.items()))
    return (*memories(spec.observation, spec.observation_space), *of_module)


def masks_of(spec: PolicySpec) -> Mask | None:
    """The stage that takes a mask, if there is one."""
    return next((stage for stage in spec.action if isinstance(stage, Mask)), None)


def input_ports(spec: PolicySpec, options: GraphOptions) -> tuple[Port, ...]:
    """What one step takes, in order.

    Raises:
        UnsupportedModuleError: Noise of two distributions would be needed.
    """
    observations = (_leaf_port(name, leaf) for name, leaf in flat_items(spec.observation_space, OBSERVATION))
    memory = memory_of(spec)
    mask = masks_of(spec)
    return (
        *observations,
        *(
            Port(name=f"{STATE}.{index}", dtype=one.dtype, shape=one.shape, memory=one.name)
            for index, one in enumerate(memory)
        ),
        *((Port(name=EPISODE_START, dtype="bool", shape=()),) if memory else ()),
        *(
            (Port(name=ACTION_MASK, dtype="bool", shape=(sum(mask.nvec),)),)
            if mask is not None and not mask.key and options.component is None
            else ()
        ),
        *((_noise(spec, options),) if options.samples else ()),
    )


def _noise(spec: PolicySpec, options: GraphOptions) -> Port:
    parts = action_parts(spec, options)
    kinds: set[Distribution] = {"uniform" if part.decides else "normal" for part in parts}
    if len(kinds) > 1:
        raise UnsupportedModuleError(
            "export.mode=stochastic draws choices with uniform noise and real numbers with normal noise",
            expected="actions of one of the two kinds",
            found=f"both in {spec.action_space.describe()}",
            fix="export.mode=deterministic, and draw from export.outputs=[logits,log_std]",
        )
    width = sum(prod(part.decision.shape) for part in parts)
    return Port(name=NOISE, dtype="float32", shape=(width,), distribution=kinds.pop())


def output_ports(spec: PolicySpec, options: GraphOptions) -> tuple[Port, ...]:
    """What one step gives, in order; of a component without its features, whose length its module alone knows.

    Raises:
        UnsupportedModuleError: See `action_parts`; or outputs that a policy of such actions cannot have.
    """
    parts = action_parts(spec, options)
    actions = () if options.component is not None else tuple(_leaf_port(part.name, part.leaf) for part in parts)
    memory = tuple(
        Port(name=f"{STATE}.{index}{NEXT}", dtype=one.dtype, shape=one.shape, memory=one.name)
        for index, one in enumerate(memory_of(spec))
    )
    return (*actions, *memory, *(_extra(name, parts) for name in options.outputs))


def _extra(name: str, parts: tuple[ActionPart, ...]) -> Port:
    if name == "value":
        return Port(name=name, dtype="float32", shape=())
    whole_row = len(parts) > 1 and name != "log_std"
    chosen = parts if whole_row else tuple(part for part in parts if part.decides == (name == "logits"))
    if not chosen:
        kinds = listed({part.leaf.describe() for part in parts})
        raise UnsupportedModuleError(
            f"export.outputs={name} is not what such a policy has",
            expected="logits for choices, mean and log_std for real numbers",
            found=kinds,
            fix="export.outputs=[logits]" if name != "logits" else "export.outputs=[mean,log_std]",
        )
    return Port(name=name, dtype="float32", shape=(sum(prod(part.decision.shape) for part in chosen),))


def _leaf_port(name: str, leaf: Leaf) -> Port:
    return Port(name=name, dtype=leaf.dtype.name, shape=leaf.shape, leaf=leaf)
