"""What can be told of a pipeline's policies before its first step, so that no later one is begun in vain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rlpipe.errors import RlpipeError
from rlpipe.pipeline.built import BuiltSource
from rlpipe.pipeline.choose import chosen_ids
from rlpipe.pipeline.lift import policies_of
from rlpipe.pipeline.recorded import recorded_env
from rlpipe.pipeline.settings import RunSettings, SelectSettings
from rlpipe.pipeline.sources import Source, read_tree
from rlpipe.snapshot.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The policies that later steps will meet, by the ids that they will have.

    Attributes:
        sources: Where they come from; what a later one has takes the place of what an earlier one has.
        settings: For what is chosen of the last one, and how that is renamed: only that is put over others.
    """

    sources: tuple[Source, ...]
    settings: RunSettings

    @cached_property
    def envs(self) -> Mapping[str, str | None]:
        """Policy id -> the environment that will be recorded with it; nothing of what cannot be read."""
        known: dict[str, str | None] = {}
        for source in self.sources:
            for name, env in self._envs(source).items():
                # What takes a policy's place in a base keeps its environment.
                known[self._renamed(name, source)] = env or known.get(self._renamed(name, source)) or self.settings.env
        return known

    @cached_property
    def read(self) -> Mapping[str, Snapshot]:
        """Policy id -> what is there of it already, without arrays; nothing of what cannot be read."""
        found: dict[str, Snapshot] = {}
        for source in self.sources:
            found |= {self._renamed(name, source): policy for name, policy in self._read(source).items()}
        return found

    def _read(self, source: Source) -> Mapping[str, Snapshot]:
        chosen = self._chosen(source)
        if isinstance(source, BuiltSource):
            return {}
        try:
            return policies_of(read_tree(source, chosen, arrays="none", trust=self.settings.trust))
        except RlpipeError:
            # The step that reads it will say so.
            return {}

    def _envs(self, source: Source) -> Mapping[str, str | None]:
        if not isinstance(source, BuiltSource):
            return {name: recorded_env(policy.metadata) for name, policy in self._read(source).items()}
        try:
            ids = chosen_ids(self._chosen(source).policy_ids, source.ids())
        except RlpipeError:
            return {}
        return {name: source.algorithm.policies[name].env for name in ids}

    def _renamed(self, policy_id: str, source: Source) -> str:
        return self.settings.rename.get(policy_id, policy_id) if source is self.sources[-1] else policy_id

    def _chosen(self, source: Source) -> SelectSettings:
        return self.settings.select if source is self.sources[-1] else SelectSettings()
