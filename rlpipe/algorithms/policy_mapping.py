"""Which policy acts for which agent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from rlpipe.checkpoint.classes import callable_path_of, resolve_callable
from rlpipe.errors import ConfigError, SelectionError, listed
from rlpipe.snapshot.ordered import from_order, in_order
from rlpipe.snapshot.selection import is_glob
from rlpipe.snapshot.spec import Json

MappingFn: TypeAlias = Callable[[str], str]
"""Agent -> policy id."""

Given: TypeAlias = "PolicyMapping | Mapping[str, str] | MappingFn | str | None"
"""A mapping as callers give it: patterns, a function, or the dotted path of a trusted one."""


@dataclass(frozen=True)
class PolicyMapping:
    """Which policy acts for which agent.

    Attributes:
        patterns: Agent, or glob over agents -> policy id. An agent's own name counts before globs, and of globs the
            first one that matches.
        function: A function that maps instead, or None.
        path: Its dotted path.
    """

    patterns: Mapping[str, str]
    function: MappingFn | None = None
    path: str | None = None

    @classmethod
    def of(cls, given: Given, ids: Collection[str], *, trust: tuple[str, ...] = ()) -> PolicyMapping | None:
        """The mapping that a caller gives; a lone policy acts for every agent where none is given.

        Raises:
            ConfigError: It is no mapping of texts to texts.
            SelectionError: It names a policy that is not there.
            UntrustedClassError: The path of a function that nobody vouched for.
        """
        if given is None:
            return cls({"*": next(iter(ids))}) if len(ids) == 1 else None
        made = given if isinstance(given, PolicyMapping) else cls._made(given, trust)
        made.require_known(ids)
        return made

    @classmethod
    def from_json(cls, value: Json) -> Given:
        """What `of` makes the same mapping of again."""
        return value if value is None or isinstance(value, str) else from_order(value, where="policy_mapping")

    @classmethod
    def _made(cls, given: Any, trust: tuple[str, ...]) -> PolicyMapping:
        if isinstance(given, Mapping):
            if wrong := [
                f"{agent!r}: {policy_id!r}" for agent, policy_id in given.items() if not _is_pair(agent, policy_id)
            ]:
                raise ConfigError("policy_mapping_fn", expected="agents or globs -> policy ids", found=listed(wrong))
            return cls(dict(given))
        if isinstance(given, str):
            return cls({}, resolve_callable(given, trust=trust, where="policy_mapping_fn"), given)
        if callable(given):
            return cls({}, given)
        raise ConfigError("policy_mapping_fn", expected="a mapping or a function", found=repr(given)[:80])

    def require_known(self, ids: Collection[str]) -> None:
        """Check that every policy that the patterns name is there; a function tells only when it is asked.

        Raises:
            SelectionError: One is not; it is named.
        """
        for agent, policy_id in self.patterns.items():
            if policy_id not in ids:
                raise SelectionError(
                    f"policy_mapping_fn maps {agent!r} to {policy_id!r}, which is not there",
                    pattern=policy_id,
                    known=ids,
                )

    def only(self, ids: Collection[str]) -> PolicyMapping | None:
        """What is left of the mapping among some of its policies; a lone one acts for all that have none."""
        if self.function is not None:
            return self
        patterns = {agent: policy_id for agent, policy_id in self.patterns.items() if policy_id in ids}
        return PolicyMapping(patterns) if patterns else PolicyMapping.of(None, ids)

    def policy_id(self, agent: str, ids: Collection[str]) -> str:
        """The policy that acts for an agent.

        Raises:
            SelectionError: None does, or one that is not there.
        """
        found: Any = self.function(agent) if self.function is not None else self._by_pattern(agent)
        if found not in ids:
            raise SelectionError(
                f"policy_mapping_fn maps {agent!r} to no policy", pattern=str(found or agent), known=ids
            )
        policy_id: str = found
        return policy_id

    def _by_pattern(self, agent: str) -> str | None:
        if agent in self.patterns:
            return self.patterns[agent]
        return next((policy_id for glob, policy_id in self.patterns.items() if fnmatchcase(agent, glob)), None)

    def to_json(self) -> Json:
        """Plain JSON: the patterns, whose order counts among globs, or the function's path."""
        if self.function is None:
            return in_order(self.patterns, [agent for agent in self.patterns if is_glob(agent)])
        return self.path or callable_path_of(self.function)


def _is_pair(agent: Any, policy_id: Any) -> bool:
    return isinstance(agent, str) and isinstance(policy_id, str) and bool(agent and policy_id)
