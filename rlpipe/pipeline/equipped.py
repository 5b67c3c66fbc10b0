"""Freshly built policies with what the config puts beside them: a mapping of agents, a learner, runners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlpipe.algorithms.algorithm_reader import LEARNER
from rlpipe.errors import ConfigError, RlpipeError
from rlpipe.pipeline.environment import require_all_fit
from rlpipe.pipeline.settings import AlgorithmSettings
from rlpipe.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from rlpipe.algorithms.learner import Learner
    from rlpipe.algorithms.runner import EnvRunner
    from rlpipe.algorithms.runner_spec import RunnerSpec


def is_equipped(settings: AlgorithmSettings) -> bool:
    """Whether the config asks for more than policies."""
    return any((settings.policy_mapping_fn, settings.learner, settings.env_runner, settings.evaluation_runner))


def equipped(tree: Snapshot, settings: AlgorithmSettings, *, trust: tuple[str, ...]) -> Snapshot:
    """An algorithm's tree of policies with all that the config puts beside them.

    Raises:
        ConfigError: It cannot be built, or an agent has no policy.
        EnvironmentMismatchError: A policy cannot act in the environment.
    """
    import torch

    with torch.random.fork_rng(devices=()):
        try:
            return _equipped(tree, settings, trust)
        except ConfigError:
            raise
        except RlpipeError as error:
            raise ConfigError(
                f"the algorithm cannot be built: {error.subject}",
                expected=error.expected or "what can be built",
                found=error.found or "what cannot",
                fix=error.fix,
            ) from error


def _equipped(tree: Snapshot, settings: AlgorithmSettings, trust: tuple[str, ...]) -> Snapshot:
    from rlpipe.algorithms.algorithm import Algorithm
    from rlpipe.algorithms.policy_mapping import PolicyMapping
    from rlpipe.checkpoint.restore import build, snapshot_of

    fresh: Any = build(tree, trust=trust)
    policies = dict(fresh.policies.items())
    given = settings.policy_mapping_fn
    mapping = None if given is None else PolicyMapping.of(given, policies, trust=trust)
    made = Algorithm(
        policies,
        learner=_learner(policies, settings, trust),
        env_runner=_runner(policies, settings.env_runner, mapping, trust),
        num_env_runners=settings.num_env_runners,
        evaluation_runner=_runner(policies, settings.evaluation_runner, mapping, trust),
        policy_mapping_fn=mapping,
    )
    return _seeded(snapshot_of(made), settings.seed)


def _learner(policies: Mapping[str, Any], settings: AlgorithmSettings, trust: tuple[str, ...]) -> Learner | None:
    from rlpipe.algorithms.learner import Learner

    if settings.learner is None:
        return None
    ids = policies if settings.policies_to_train is None else settings.policies_to_train
    return Learner.for_policies(policies, dict.fromkeys(ids, settings.learner), trust=trust)


def _runner(
    policies: Mapping[str, Any], spec: RunnerSpec | None, mapping: Any, trust: tuple[str, ...]
) -> EnvRunner | None:
    from rlpipe.algorithms.stepping import spaces_of_policy

    if spec is None:
        return None
    made = spec.build(policies, mapping, trust=trust)
    acting = sorted({made.policy_of(agent) for agent in made.agents()})
    require_all_fit({name: spaces_of_policy(policies[name]) for name in acting}, made.env)
    return made


def _seeded(tree: Snapshot, seed: int) -> Snapshot:
    """The tree with random number generators that follow from the seed, not from this process."""
    from rlpipe.algorithms.random_states import fresh_random_states

    if LEARNER not in tree.children:
        return tree
    learner = tree.children[LEARNER]
    state = {**learner.state, "random_states": fresh_random_states(seed)}
    return replace(tree, children={**tree.children, LEARNER: replace(learner, state=state)})
