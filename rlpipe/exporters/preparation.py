"""From a policy's snapshot to what every target needs: the traced graph and the policy's own answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlpipe.checkpoint.restore import build
from rlpipe.exporters.freeze import inputs_of
from rlpipe.exporters.golden import choose, golden
from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.observations import Statistics, observations
from rlpipe.exporters.reference import Reference, reference
from rlpipe.exporters.saturation import Probe, saturated
from rlpipe.exporters.signature import Array, Signature, policy_signature, with_features
from rlpipe.exporters.verify import perturbation
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import Space, from_json
from rlpipe.snapshot.state import arrays, split

if TYPE_CHECKING:
    from rlpipe.policies.policy import Policy
    from rlpipe.policies.policy_graph import PolicyGraph

PLAIN = GraphOptions()


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


def prepare(snapshot: Snapshot, *, recorded: Any, trust: tuple[str, ...], options: GraphOptions = PLAIN) -> Preparation:
    """Build a policy twice: whole, to ask it, and for inference only, to trace it.

    Args:
        snapshot: A policy's snapshot, full or slim.
        recorded: A batch of observations met in the environment, or None.
        trust: Patterns of class paths that may be imported beside rlpipe's.
        options: What of it is exported.

    Raises:
        RlpipeError: The policy cannot be built; the recorded observations do not fit; UnsupportedModuleError: it is no
            pure function of any batch size, cannot be traced, or has nothing of what the options ask for.
    """
    policy, slim = (cast("Policy", build(part, device="cpu", trust=trust)) for part in (snapshot, _slim(snapshot)))
    # A value function is no part of what acts.
    graph = (policy if "value" in options.outputs else slim).graph(options)
    observation_space, _ = spaces_of(snapshot)
    signature = _signature(policy, graph, options)
    chosen = observations(observation_space, signature, recorded=recorded, statistics=_statistics(snapshot, signature))
    # The graph first: what it refuses it explains, where the policy would only fail.
    traced = export_graph(graph, signature, chosen.arrays)
    truth = reference(
        lambda named: policy.answers(named, options),
        chosen,
        (lambda named: policy.decisive(named, options)) if options.component is None else None,
    )
    weights = {".".join(split(key)): array for key, array in arrays(_slim(snapshot).state).items()}
    rows = choose(truth, perturbation(truth))
    whole = replace(traced, weights=weights, golden=golden(truth, rows))
    return Preparation(whole, truth, rows, saturated(graph, signature, truth))


def component_signature(snapshot: Snapshot, options: GraphOptions, *, trust: tuple[str, ...]) -> Signature:
    """The signature of a component, for which the policy is built and tried.

    Raises:
        UnsupportedModuleError: There is no such component.
    """
    policy = cast("Policy", build(_slim(snapshot), device="cpu", trust=trust))
    return _signature(policy, policy.graph(options), options)


def _signature(policy: Policy, graph: PolicyGraph, options: GraphOptions) -> Signature:
    signature = policy_signature(policy.spec, options)
    if options.component is None:
        return signature
    few = observations(policy.spec.observation_space, signature)
    inputs = inputs_of(signature, {name: array[:2] for name, array in few.arrays.items()})
    return with_features(signature, *graph.features(dict(zip(graph.input_names, inputs, strict=True))))


def _slim(snapshot: Snapshot) -> Snapshot:
    return select(snapshot, Selection(roles=frozenset({"inference"}), ties="untie"))


def _statistics(snapshot: Snapshot, signature: Signature) -> Statistics:
    """Mean and deviation for the inputs that the policy normalises element by element."""
    pairs = list(_pairs(snapshot.state.get("observation", {})))
    found: dict[str, tuple[Array, Array]] = {}
    for spec in signature.of_kind("observation"):
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
