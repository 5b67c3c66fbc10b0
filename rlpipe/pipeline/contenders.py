"""What can be rolled out: a policy of a checkpoint or foreign file, or an artifact of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlpipe.algorithms.env_runner import Act, EnvSpaces
from rlpipe.errors import ConfigError, UnsafePayloadError
from rlpipe.exporters.artifact import Artifact, open_artifact
from rlpipe.exporters.signature import OBSERVATION, Array
from rlpipe.exporters.target import acts
from rlpipe.pipeline.acting import noise
from rlpipe.pipeline.artifacts import ArtifactFolder, artifacts_at
from rlpipe.pipeline.choose import completed
from rlpipe.pipeline.inspect import facts_of_snapshot
from rlpipe.pipeline.lift import container_of, policies_of
from rlpipe.pipeline.live import build_policies, probe, spaces_of
from rlpipe.pipeline.locate import ARTIFACT, Located
from rlpipe.pipeline.recorded import recorded_env
from rlpipe.pipeline.settings import RunSettings
from rlpipe.pipeline.sources import read_tree, source_at
from rlpipe.policies.player import Player
from rlpipe.policies.step import Step
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import flat_batch

POLICY = "policy"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """Something that acts.

    Attributes:
        policy_id: The policy's id.
        form: "policy", or the id of the artifact's target.
        spaces: What it takes and gives.
        env: The environment that it was trained in, where that is recorded.
        fingerprint: First digits of its inference hash.
        trained: What is recorded; None where nothing is.
        open: Opens it and tries it; gives what acts.
    """

    policy_id: str
    form: str
    spaces: EnvSpaces
    env: str | None
    fingerprint: str
    trained: bool | None
    open: Callable[[], Act]


def contenders(located: Located, settings: RunSettings) -> tuple[tuple[Contender, ...], tuple[str, ...]]:
    """The chosen ones at a located path, and notes on how they were read.

    Raises:
        SelectionError: A pattern names none of the policies.
        UnsafePayloadError: Every artifact could run code when it is loaded, and none is trusted.
        ConfigError: There is nothing to roll out.
    """
    if located.kind == ARTIFACT:
        return _of_folders(artifacts_at(located.path, settings.select), settings.trust)
    source = source_at(located, settings.source)
    select = replace(settings.select, roles=settings.select.roles or ("inference",), ties="untie")
    tree = completed(read_tree(source, select, trust=settings.trust), select)
    found = tuple(_of_policy(policy, name, settings.trust) for name, policy in policies_of(tree).items())
    if not found:
        raise ConfigError("there is no policy to roll out", expected="policies", found=located.facts.name)
    return found, source.notes


def _of_policy(policy: Snapshot, policy_id: str, trust: tuple[str, ...]) -> Contender:
    spaces, alone = spaces_of(policy), container_of({policy_id: policy})

    def opened() -> Act:
        live = build_policies(alone, device="cpu", trust=trust)[policy_id]
        probe(live, spaces, policy_id=policy_id)
        return Player(live)

    return Contender(
        policy_id=policy_id,
        form=POLICY,
        spaces=EnvSpaces(spaces.observation, spaces.action),
        env=recorded_env(policy.metadata),
        fingerprint=facts_of_snapshot(policy, name=policy_id)[0].fingerprint,
        trained=policy.metadata.get("trained"),
        open=opened,
    )


def _of_folders(
    folders: tuple[ArtifactFolder, ...], trust: tuple[str, ...]
) -> tuple[tuple[Contender, ...], tuple[str, ...]]:
    """The artifacts that may be loaded, and a note for each of the others."""
    found: list[Contender] = []
    refused: dict[str, UnsafePayloadError] = {}
    for folder in folders:
        for target_id in filter(acts, folder.targets):
            try:
                found.append(_of_artifact(folder, target_id, trust))
            except UnsafePayloadError as error:
                refused[f"{folder.policy_id}/{target_id}"] = error
    if refused and not found:
        raise next(iter(refused.values()))
    return tuple(found), tuple(f"left out {name}: {error.subject}; {error.fix}" for name, error in refused.items())


class _Drawing:
    """An artifact whose noise is drawn here, if it takes any; the same each time."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact, self._rng = artifact, np.random.default_rng(0)

    @property
    def takes_mask(self) -> bool:
        """Whether choices can be forbidden."""
        return bool(self._artifact.signature.of_kind("action_mask"))

    def step(self, observations: Any, state: Mapping[str, Array] | None, *, action_mask: Any = None) -> Step:
        """See `Artifact.step`."""
        count = len(next(iter(flat_batch(self._artifact.observation_space, observations, OBSERVATION).values())))
        drawn = next((noise(spec, count, self._rng) for spec in self._artifact.signature.of_kind("noise")), None)
        return self._artifact.step(observations, state, action_mask=action_mask, noise=drawn)


def _of_artifact(folder: ArtifactFolder, target_id: str, trust: tuple[str, ...]) -> Contender:
    artifact = open_artifact(folder.folder, target=target_id, trust=trust)
    return Contender(
        policy_id=folder.policy_id,
        form=target_id,
        spaces=EnvSpaces(artifact.observation_space, artifact.action_space),
        env=recorded_env(folder.metadata),
        fingerprint=folder.fingerprint,
        trained=folder.record.get("trained"),
        open=lambda: Player(_Drawing(artifact)),
    )
