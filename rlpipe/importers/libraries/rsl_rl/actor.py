"""The networks of a run as encoders and heads of an actor-critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rsl_rl.agent import Agent
from rlpipe.importers.libraries.rsl_rl.checkpoint import SavedRun, Tensors
from rlpipe.importers.libraries.rsl_rl.networks import (
    Entries,
    Memory,
    Stack,
    log_deviation,
    take_memory,
    take_stack,
)
from rlpipe.importers.libraries.rsl_rl.settings import AGENT
from rlpipe.importers.libraries.rsl_rl.statistics import are_same

_CRITIC: dict[str, Any] = {"type": "mlp", "hidden": [64, 64], "activation": "tanh"}
"""What an actor-critic without its critic names; it is never built."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Network:
    """A stack of layers, perhaps with a memory before it.

    Attributes:
        stack: The layers.
        memory: The recurrent network, or None.
    """

    stack: Stack
    memory: Memory | None

    @property
    def inputs(self) -> int:
        """Width of what it sees."""
        return self.stack.inputs if self.memory is None else self.memory.inputs

    def encoder(self, activation: str) -> dict[str, Any]:
        """The config of all but the last layer."""
        layers = self.stack.encoder(activation)
        if self.memory is None:
            return layers
        sizes = {"hidden_size": self.memory.hidden, "num_layers": self.memory.layers}
        return {"type": self.memory.kind, **sizes, "before": None, "after": layers}

    def entries(self, key: str) -> Entries:
        """The tensors of all but the last layer, under the key of the encoder."""
        if self.memory is None:
            return self.stack.entries(key)
        cells = {f"{key}/rnn/{name}": array for name, array in self.memory.tensors.items()}
        return cells | self.stack.entries(f"{key}/after")


def take_network(tensors: Tensors, subject: str) -> Network:
    """The network of some tensors.

    Raises:
        ForeignFormatError: It is of another kind, or its parts do not fit each other.
    """
    network = Network(stack=take_stack(tensors, subject), memory=take_memory(tensors, subject))
    if network.memory is not None and network.memory.hidden != network.stack.inputs:
        raise ForeignFormatError(
            f"{subject} has layers that do not fit its memory",
            expected=f"layers for {network.memory.hidden} numbers",
            found=f"layers for {network.stack.inputs}",
        )
    return network


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Head:
    """How the last layer becomes an action.

    Attributes:
        actions: Elements of the action.
        log_std: How the deviation comes about, in the words of our head.
        entries: The tensors of the head.
        note: What was changed in the deviation; "" for nothing.
    """

    actions: int
    log_std: str
    entries: Entries
    note: str = ""


def take_head(run: SavedRun, agent: Agent, stack: Stack) -> Head:
    """The head of the acting network.

    Raises:
        ForeignFormatError: Nothing says what its outputs are, or they make no Gaussian.
    """
    log_std, note = log_deviation(run.acting, stack.outputs, run.name)
    if log_std is not None:
        entries = stack.head("pi/mean") | {"pi/log_std": log_std}
        return Head(actions=stack.outputs, log_std="free", entries=entries, note=note)
    kind = _kind(run, agent)
    if kind == "none":
        return Head(actions=stack.outputs, log_std="none", entries=stack.head("pi/mean"))
    actions, odd = divmod(stack.outputs, 2)
    if odd:
        raise ForeignFormatError(
            f"{run.name} has a head of an unknown kind",
            expected="a mean and a deviation",
            found=f"{stack.outputs} numbers",
        )
    key = {"state": "pi/log_std", "std": "pi/std"}[kind]
    entries = stack.head("pi/mean", slice(0, actions)) | stack.head(key, slice(actions, None))
    return Head(actions=actions, log_std=kind, entries=entries)


def _kind(run: SavedRun, agent: Agent) -> str:
    """How actions spread where the file holds no deviation: by the observation, or, those of a student, not at all."""
    if agent.distribution not in ("", "GaussianDistribution", "HeteroscedasticGaussianDistribution"):
        raise ForeignFormatError(
            f"{run.name} draws its actions from a {agent.distribution}",
            expected="a Gaussian, or no distribution",
            found=agent.distribution,
            fix="train with a GaussianDistribution, or build the network around rlpipe.TorchModule",
        )
    if not agent.is_known:
        raise ForeignFormatError(
            f"{run.name} does not say how its actions spread",
            expected=f"a deviation in the file, or {AGENT} of the run",
            found="neither",
            fix=f"source.params=<folder of {AGENT}>",
        )
    if run.distilled and not agent.spreads:
        return "none"
    return "state" if agent.noise == "log" else "std"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Critic:
    """The value network, or why it stays behind.

    Attributes:
        network: The network; None where it stays behind or there is none.
        why_not: Why it stays behind; "" else.
    """

    network: Network | None = None
    why_not: str = ""

    def encoder(self, activation: str) -> dict[str, Any]:
        """The config of its encoder."""
        return _CRITIC if self.network is None else self.network.encoder(activation)

    def entries(self) -> Entries:
        """Its tensors; {} where it stays behind."""
        if self.network is None:
            return {}
        return self.network.entries("encoder/critic_encoder") | self.network.stack.head("vf")


def take_critic(run: SavedRun, actor: Network) -> Critic:
    """The value network, if it sees what the actor sees: an actor-critic shows both the same."""
    if not run.value:
        return Critic()
    try:
        network = take_network(run.value, "the critic")
    except ForeignFormatError as error:
        return Critic(why_not=f"{error.subject}: {error.found}")
    if network.inputs != actor.inputs or not are_same(run.value, run.acting):
        return Critic(why_not="it saw other observations than the actor")
    if network.stack.outputs != 1:
        return Critic(why_not=f"it has {network.stack.outputs} values")
    return Critic(network=network)
