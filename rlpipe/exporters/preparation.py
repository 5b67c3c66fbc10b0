"""From a policy's snapshot to what every target needs: the traced graph and the policy's own answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlpipe.checkpoint.restore import build
from rlpipe.exporters.golden import choose
from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.observations import Statistics, observations
from rlpipe.exporters.reference import Reference, reference
from rlpipe.exporters.saturation import Probe, saturated
from rlpipe.exporters.signature import ACTION, OBSERVATION, Array, Signature, signature_of
from rlpipe.exporters.target import Arrays
from rlpipe.exporters.verify import perturbation
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import Space, flat_batch, from_json, nested_batch
from rlpipe.snapshot.state import arrays, split

if TYPE_CHECKING:
    from rlpipe.policies.policy import Policy


@dataclass(frozen=True, eq=False)
class Preparation:
    """What is done once per policy.

    Attributes:
        graph: The inference-only policy, frozen and traced.
        truth: The whole policy's own answers, to compare with.
        golden_rows: Indices of the observations that become golden vectors.
        probe: A throw-away copy that reaches the bounds of its actions, or None if the policy does that itself.
    """

    graph: ExportGraph
    truth: Reference
    golden_rows: Array
    probe: Probe | None


def spaces_of(snapshot: Snapshot) -> tuple[Space, Space]:
    """The environment's observation and action space of a policy."""
    config = snapshot.spec.config
    return (
        from_json(config["observation_space"], where="observation_space"),
        from_json(config["action_space"], where="action_space"),
    )


def prepare(snapshot: Snapshot, *, recorded: Any, trust: tuple[str, ...]) -> Preparation:
    """Build a policy twice: whole, to ask it, and for inference only, to trace it.

    Args:
        snapshot: A policy's snapshot, full or slim.
        recorded: A batch of observations met in the environment, or None.
        trust: Patterns of class paths that may be imported beside rlpipe's.

    Raises:
        RlpipeError: The policy cannot be built; the recorded observations do not fit; UnsupportedModuleError: it is no
            pure function of any batch size, or cannot be traced.
    """
    policy, slim = (cast("Policy", build(part, device="cpu", trust=trust)) for part in (snapshot, _slim(snapshot)))
    observation_space, action_space = spaces_of(snapshot)
    signature = signature_of(observation_space, action_space)

    def given(named: Arrays) -> Any:
        return nested_batch(observation_space, named, OBSERVATION)

    chosen = observations(observation_space, signature, recorded=recorded, statistics=_statistics(snapshot, signature))
    # The graph first: what it refuses it explains, where the policy would only fail.
    graph = export_graph(slim.graph(), signature, chosen.arrays)
    truth = reference(
        lambda named: flat_batch(action_space, policy.compute_actions(given(named)), ACTION),
        chosen,
        lambda named: policy.scores(given(named)),
    )
    graph = replace(
        graph, weights={".".join(split(key)): array for key, array in arrays(_slim(snapshot).state).items()}
    )
    rows = choose(truth, perturbation(truth))
    return Preparation(graph, truth, rows, saturated(slim.graph(), signature, truth))


def _slim(snapshot: Snapshot) -> Snapshot:
    return select(snapshot, Selection(roles=frozenset({"inference"}), ties="untie"))


def _statistics(snapshot: Snapshot, signature: Signature) -> Statistics:
    """Mean and deviation for the inputs that the policy normalises element by element."""
    pairs = list(_pairs(snapshot.state.get("observation", {})))
    found: dict[str, tuple[Array, Array]] = {}
    for spec in signature.inputs:
        fitting = [pair for pair in pairs if pair[0].size == np.prod(spec.shape, dtype=int)]
        if fitting:
            mean, deviation = fitting[0]
            found[spec.name] = (mean.reshape(spec.shape), deviation.reshape(spec.shape))
            pairs = [pair for pair in pairs if pair is not fitting[0]]
    return found


def _pairs(state: Any) -> Iterator[tuple[Array, Array]]:
    """Every mean with its deviation inside the state of the observation stages."""
    if not isinstance(state, Mapping):
        return
    mean, deviation = state.get("mean"), state.get("std")
    if isinstance(variance := state.get("var"), np.ndarray):
        deviation = np.sqrt(variance)
    if isinstance(mean, np.ndarray) and isinstance(deviation, np.ndarray):
        yield mean, deviation
    for value in state.values():
        yield from _pairs(value)
