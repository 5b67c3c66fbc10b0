"""Freshly built policies as a source: what the config says, with weights that were never trained."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlpipe.algorithms.env_runner import EnvSpaces, make_env, spaces_of
from rlpipe.errors import ConfigError, DeviceError, MissingDependencyError, RlpipeError, listed
from rlpipe.importers.importer import ImportReport
from rlpipe.pipeline.choose import chosen_ids, entry_selection
from rlpipe.pipeline.equipped import equipped, is_equipped
from rlpipe.pipeline.lift import Kind, algorithm_of, container_of
from rlpipe.pipeline.reports import SourceFacts
from rlpipe.pipeline.settings import AlgorithmSettings, PolicySettings, RunSettings, SelectSettings
from rlpipe.pipeline.sources import NOTHING_LEFT, Arrays
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot

BUILT = SourceFacts(kind="built", name="the configured policies")
_NOT_OF_THE_CONFIG = (DeviceError, MissingDependencyError)
_USUAL_FIX = "change module, or the policy's own keys under algorithm.policies"


@dataclass(frozen=True, kw_only=True)
class BuiltSource:
    """The configured policies.

    Attributes:
        algorithm: What to build.
        env: Where a policy's spaces are from if nothing nearer gives them.
        trust: Patterns of class paths that may be imported.
    """

    algorithm: AlgorithmSettings
    env: str | None
    trust: tuple[str, ...]
    facts: SourceFacts = BUILT
    notes: tuple[str, ...] = ()
    kind: Kind = "algorithm"
    report: ImportReport = NOTHING_LEFT

    def ids(self) -> tuple[str, ...]:
        """The configured ids.

        Raises:
            ConfigError: There are none.
        """
        if not self.algorithm.policies:
            raise ConfigError(
                "there is no policy to build",
                expected="policies in algorithm.policies",
                found="none",
                fix="choose algorithm=default, or name a source.path",
            )
        return tuple(sorted(validate_ids(self.algorithm.policies)))

    def read(self, chosen: SelectSettings, *, arrays: Arrays = "verify") -> Snapshot:
        """The chosen policies, built; the same seed and id give the same weights, whatever else is chosen.

        Raises:
            ConfigError: Some cannot be built; all of them. Or some are chosen, and there is more than policies.
        """
        del arrays
        policies = self._policies(chosen_ids(chosen.policy_ids, self.ids()))
        tree = algorithm_of(container_of(policies))
        if is_equipped(self.algorithm):
            _require_all(chosen)
            tree = equipped(tree, self.algorithm, trust=self.trust)
        selection = entry_selection(chosen)
        return tree if selection == Selection() else select(tree, selection)

    def _policies(self, policy_ids: tuple[str, ...]) -> dict[str, Snapshot]:
        made: dict[str, Snapshot] = {}
        refused: dict[str, RlpipeError] = {}
        for policy_id in policy_ids:
            try:
                made[policy_id] = self._policy(policy_id)
            except _NOT_OF_THE_CONFIG:
                raise
            except RlpipeError as error:
                refused[policy_id] = error
        if refused:
            raise _refusal(refused) from next(iter(refused.values()))
        return made

    def _policy(self, policy_id: str) -> Snapshot:
        settings = self.algorithm.policies[policy_id]
        env = settings.env or self.env
        snapshot = fresh_policy(policy_id, settings, env=env, seed=self.algorithm.seed, trust=self.trust)
        return replace(snapshot, metadata=_metadata(snapshot.metadata, env))


def _require_all(chosen: SelectSettings) -> None:
    """What is beside policies belongs to all of them."""
    if chosen.policy_ids is not None:
        raise ConfigError(
            "policy_ids takes policies alone, and the algorithm has more",
            expected="all of its policies",
            found=f"policy_ids=[{', '.join(chosen.policy_ids)}]",
            fix="save it whole, and take policies out of that: source.path=...; or leave algorithm.learner, "
            "algorithm.env_runner, algorithm.evaluation_runner and algorithm.policy_mapping_fn out",
        )


def built_source(settings: RunSettings) -> BuiltSource:
    """The configured policies of a run."""
    return BuiltSource(algorithm=settings.algorithm, env=settings.env, trust=settings.trust)


def fresh_policy(
    policy_id: str, settings: PolicySettings, *, env: str | None, seed: int, trust: tuple[str, ...]
) -> Snapshot:
    """A new policy with default stages around the configured module.

    Raises:
        ConfigError: Its spaces are neither configured nor given by an environment.
        SpecError: The module cannot be built of its config.
    """
    import torch

    from rlpipe.checkpoint.restore import snapshot_of
    from rlpipe.policies.policy_spec import PolicySpec

    spaces = _spaces(settings, env)
    module = settings.module
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(_seed_of(seed, policy_id))
        spec = PolicySpec.default(
            module.class_path,
            spaces.observation,
            spaces.action,
            inference_only=module.inference_only,
            learner_only=module.learner_only,
            model_config=module.model_config,
            non_inference_attributes=module.non_inference_attributes,
            action_mask=module.action_mask,
            trust=trust,
        )
        return snapshot_of(spec.build(trust=trust))


def _refusal(refused: Mapping[str, RlpipeError]) -> ConfigError:
    """One error for all policies; what is wrong with several of them is told once."""
    alike: dict[str, list[str]] = {}
    for policy_id, error in refused.items():
        alike.setdefault(str(error), []).append(policy_id)
    groups = [(listed(policy_ids), refused[policy_ids[0]]) for policy_ids in alike.values()]
    name, first = groups[0]
    others = [f"{policy_ids}: {error.subject}" for policy_ids, error in groups[1:]]
    return ConfigError(
        "\n".join([f"cannot build {name}: {first.subject}", *(f"and {text}" for text in others)]),
        expected=first.expected or "a module that can be built",
        found=first.found or "one that cannot",
        fix=first.fix if first.fix != first.usual_fix else f"{_USUAL_FIX}; rlpipe --cfg job shows them",
    )


def _spaces(settings: PolicySettings, env: str | None) -> EnvSpaces:
    if settings.observation_space is not None and settings.action_space is not None:
        return EnvSpaces(settings.observation_space, settings.action_space)
    if env is None:
        raise ConfigError(
            "the spaces are not known",
            expected="env, or observation_space and action_space under algorithm.policies.<id>",
            found="none of them",
            fix="name the environment: env=CartPole-v1",
        )
    made = make_env(env)
    try:
        found = spaces_of(made)
    finally:
        made.close()
    return EnvSpaces(settings.observation_space or found.observation, settings.action_space or found.action)


def _seed_of(seed: int, policy_id: str) -> int:
    """A seed of its own for each policy, so that a policy's weights do not depend on the others."""
    digest = hashlib.sha256(f"{seed}/{policy_id}".encode()).digest()
    return int.from_bytes(digest[:4], "little")


def _metadata(found: Mapping[str, object], env: str | None) -> dict[str, object]:
    return {**found, "trained": False, **({"env": env} if env else {})}
