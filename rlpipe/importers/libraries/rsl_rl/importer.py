"""A checkpoint of rsl_rl as the snapshot of a policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpipe.errors import ConfigError, listed
from rlpipe.importers.importer import ImportedFile, ImportReport
from rlpipe.importers.libraries.rsl_rl.actor import Critic, take_critic, take_head, take_network
from rlpipe.importers.libraries.rsl_rl.agent import Agent, activation_of, read_agent, require_fit
from rlpipe.importers.libraries.rsl_rl.assembly import Parts, snapshot_of
from rlpipe.importers.libraries.rsl_rl.checkpoint import SavedRun, is_saved_run, open_run
from rlpipe.importers.libraries.rsl_rl.deployment import Given, deployment_of
from rlpipe.importers.libraries.rsl_rl.networks import Entries
from rlpipe.importers.libraries.rsl_rl.settings import AUTO, find_settings
from rlpipe.importers.libraries.rsl_rl.statistics import statistics_of

_UNUSED = ("norm._var", "norm.count")


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

    @property
    def given(self) -> Given:
        """What is said about deployment."""
        return Given(self.observation_names, self.joint_names, self.action_scale, self.action_offset)


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
    actor = take_network(run.acting, run.name)
    require_fit(agent, run, actor.stack, actor.memory)
    activation, choice = activation_of(agent, run, settings, options.activation)
    head = take_head(run, agent, actor.stack)
    critic = take_critic(run, actor)
    deployment = deployment_of(settings, agent, options.given, inputs=actor.inputs, actions=head.actions)
    entries = actor.entries("encoder/actor_encoder") | head.entries | critic.entries()
    parts = Parts(
        run=run,
        settings=settings,
        deployment=deployment,
        actor=actor,
        head=head,
        critic=critic,
        activation=activation,
        clip_actions=_clip(options, agent),
        entries=entries,
        statistics=statistics_of(run.acting, actor.inputs, run.name),
    )
    notes = (choice, head.note, *deployment.notes, *_warnings(run, entries))
    return ImportedFile(snapshot_of(parts), _report(run, critic, tuple(filter(None, notes))))


def _clip(options: Options, agent: Agent) -> float | None:
    chosen = options.clip_actions
    if chosen is not None and not 0 < chosen < np.inf:
        raise ConfigError(
            "source.clip_actions is no bound", expected="a number above 0", found=str(chosen), fix="leave it out"
        )
    return agent.clip_actions if chosen is None else chosen


def _warnings(run: SavedRun, entries: Entries) -> list[str]:
    notes = []
    if run.compiled:
        notes.append("names of weights without the _orig_mod of torch.compile")
    if run.suspects:
        notes.append(f"{listed(run.suspects)} may be statistics of a fork of rsl_rl: not used")
    if broken := [key for key, array in entries.items() if not np.all(np.isfinite(array))]:
        notes.append(f"weights that are not finite: {listed(broken)}")
    return notes


def _report(run: SavedRun, critic: Critic, notes: tuple[str, ...]) -> ImportReport:
    imported = [origin for name, origin in run.origins.items() if name not in _UNUSED]
    skipped = [(origin, "not needed to normalise") for name, origin in run.origins.items() if name in _UNUSED]
    if critic.network is not None:
        imported.append("the critic")
    if critic.why_not:
        skipped.append(("the critic", critic.why_not))
    return ImportReport(imported=tuple(sorted(imported)), skipped=(*run.skipped, *skipped), notes=notes)
