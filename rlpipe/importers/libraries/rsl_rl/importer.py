"""A checkpoint of rsl_rl as the snapshot of a policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.errors import ConfigError, ForeignFormatError, listed
from rlpipe.importers.importer import ImportedFile, ImportReport
from rlpipe.importers.libraries.rsl_rl.agent import Agent, activation_of, read_agent, require_fit
from rlpipe.importers.libraries.rsl_rl.assembly import Parts, snapshot_of
from rlpipe.importers.libraries.rsl_rl.checkpoint import SavedRun, is_saved_run, open_run
from rlpipe.importers.libraries.rsl_rl.deployment import Given, deployment_of
from rlpipe.importers.libraries.rsl_rl.networks import (
    Entries,
    Memory,
    Stack,
    log_deviation,
    take_memory,
    take_stack,
)
from rlpipe.importers.libraries.rsl_rl.settings import AUTO, find_settings
from rlpipe.importers.libraries.rsl_rl.statistics import are_same, statistics_of

_DEFAULT_CRITIC: dict[str, Any] = {"type": "mlp", "hidden": [64, 64], "activation": "tanh"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a checkpoint is read; None leaves a thing to the settings of the run.

    Attributes:
        params: "auto" takes the settings beside the checkpoint; "none" takes none; anything else is the path of the
            folder that has them.
        activation: Activation between the layers, such as "elu".
        clip_actions: Bound on the size of actions, as the trainer's environment applied it.
        observation_names: A name for each element of the observation.
        joint_names: Joints that the action moves, an element each; finds scale and offset by name in env.yaml.
        action_scale: Target of the actuator = scale * action + offset: one number, or one for each element.
        action_offset: See `action_scale`.
        policy_id: Id that the policy gets where it is put among others.
    """

    params: str = AUTO
    activation: str | None = None
    clip_actions: float | None = None
    observation_names: tuple[str, ...] | None = None
    joint_names: tuple[str, ...] | None = None
    action_scale: float | tuple[float, ...] | None = None
    action_offset: float | tuple[float, ...] | None = None
    policy_id: str = "p0"


def recognise(path: Path) -> bool:
    """Whether the file is what a runner of rsl_rl wrote, whatever it is called."""
    return is_saved_run(path)


def read(path: Path, options: Options) -> ImportedFile:
    """The policy in a checkpoint, with its statistics and what the settings beside it say.

    Raises:
        ForeignFormatError: The file is damaged or of a kind that is not supported, or the settings are not its own.
        UnsafePayloadError: Something asks for more than numbers and plain values.
        NormalizerError: Statistics are missing or not finite.
        ConfigError: An option does not fit the policy.
    """
    run = open_run(path)
    settings = find_settings(path, options.params)
    agent = read_agent(settings, run)
    stack = take_stack(run.acting, run.name)
    memory = take_memory(run.acting, run.name)
    require_fit(agent, run, stack, memory)
    activation, choice = activation_of(agent, run, settings, options.activation)
    _refuse(run, agent, memory)
    inputs = stack.inputs if memory is None else memory.inputs
    actor = _Actor(run, stack)
    critic, why_not = _critic(run, inputs)
    statistics = statistics_of(run.acting, inputs, run.name)
    given = Given(
        observation_names=options.observation_names,
        joint_names=options.joint_names,
        action_scale=options.action_scale,
        action_offset=options.action_offset,
    )
    deployment = deployment_of(settings, agent, given, inputs=inputs, actions=actor.actions)
    parts = Parts(
        run=run,
        settings=settings,
        deployment=deployment,
        inputs=inputs,
        actions=actor.actions,
        clip_actions=_clip(options, agent),
        model_config={
            "shared": None,
            "actor": stack.encoder(activation),
            "critic": critic.encoder(activation) if critic is not None else _DEFAULT_CRITIC,
            "log_std": actor.log_std,
            "squash": False,
        },
        entries=actor.entries | (_critic_entries(critic) if critic is not None else {}),
        statistics=statistics,
        has_critic=critic is not None,
    )
    notes = (choice, actor.note, *deployment.notes, *_warnings(run, parts))
    return ImportedFile(snapshot_of(parts), _report(run, critic, why_not, tuple(filter(None, notes))))


class _Actor:
    """The acting network: its head, and the deviation that it explores with."""

    def __init__(self, run: SavedRun, stack: Stack) -> None:
        free, self.note = None, ""
        if {"std", "log_std"} & run.acting.keys():
            free, self.note = log_deviation(run.acting, stack.outputs, run.name)
        self.log_std = "free" if free is not None else "state"
        self.actions = stack.outputs if free is not None else stack.outputs // 2
        mean = slice(None) if free is not None else slice(0, self.actions)
        self.entries: Entries = stack.entries("encoder/actor_encoder") | stack.head("pi/mean", mean)
        self.entries |= (
            {"pi/log_std": free} if free is not None else stack.head("pi/log_std", slice(self.actions, None))
        )


def _refuse(run: SavedRun, agent: Agent, memory: Memory | None) -> None:
    """Refuse what would not act like the trained policy."""
    if memory is not None:
        raise ForeignFormatError(
            f"{run.name} holds a policy with a memory ({memory.kind})",
            expected="an MLP",
            found=f"{memory.layers} layers of {memory.hidden}",
        )
    if {"std", "log_std"} & run.acting.keys():
        return
    kind = agent.distribution.replace(":", ".").rpartition(".")[2]
    if agent.noise != "log":
        raise ForeignFormatError(
            f"{run.name} computes the deviation of its actions from the observation",
            expected="deviations that are parameters, or their logarithm (std_type: log)",
            found=kind or agent.noise or "nothing about it in the settings",
        )


def _critic(run: SavedRun, inputs: int) -> tuple[Stack | None, str]:
    """The value network, if it sees what the actor sees, and why not else."""
    if not run.value:
        return None, ""
    try:
        memory, critic = take_memory(run.value, "the critic"), take_stack(run.value, "the critic")
    except ForeignFormatError as error:
        return None, f"{error.subject}: {error.found}"
    seen = critic.inputs if memory is None else memory.inputs
    if seen != inputs or not are_same(run.value, run.acting):
        return None, "the critic saw other observations than the actor, and does not act"
    if critic.outputs != 1:
        return None, f"a critic with {critic.outputs} values"
    return critic, ""


def _critic_entries(critic: Stack) -> Entries:
    return critic.entries("encoder/critic_encoder") | critic.head("vf")


def _clip(options: Options, agent: Agent) -> float | None:
    chosen = options.clip_actions
    if chosen is not None and not 0 < chosen < np.inf:
        raise ConfigError(
            "source.clip_actions is no bound", expected="a number above 0", found=str(chosen), fix="leave it out"
        )
    return agent.clip_actions if chosen is None else chosen


def _warnings(run: SavedRun, parts: Parts) -> list[str]:
    notes = []
    if run.compiled:
        notes.append("names of weights without the _orig_mod of torch.compile")
    if run.suspects:
        notes.append(f"{listed(run.suspects)} may be statistics of a fork of rsl_rl: not used")
    if broken := [key for key, array in parts.entries.items() if not np.all(np.isfinite(array))]:
        notes.append(f"weights that are not finite: {listed(broken)}")
    return notes


def _report(run: SavedRun, critic: Stack | None, why_not: str, notes: tuple[str, ...]) -> ImportReport:
    unused = {name for name in run.acting if name in ("norm._var", "norm.count")}
    imported = [origin for name, origin in run.origins.items() if name not in unused]
    skipped = [(run.origins[name], "not needed to normalise") for name in sorted(unused)]
    if run.value:
        imported += ["the critic"] if critic is not None else []
        skipped += [] if critic is not None else [("the critic", why_not)]
    return ImportReport(imported=tuple(sorted(imported)), skipped=(*run.skipped, *skipped), notes=notes)
