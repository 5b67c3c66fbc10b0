"""Changes to a saved algorithm while it is restored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rlpipe.algorithms.algorithm_parts import required
from rlpipe.algorithms.algorithm_reader import EVALUATION, LEARNER, RUNNER, Ids
from rlpipe.algorithms.policy_mapping import Given, PolicyMapping
from rlpipe.errors import ConfigError, listed

if TYPE_CHECKING:
    from rlpipe.algorithms.algorithm import Algorithm

_NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "policies_to_train": (LEARNER,),
        "hyperparameters": (LEARNER,),
        "num_env_runners": (RUNNER,),
        "env": (RUNNER, EVALUATION),
    }
)
"""Change -> the components of which it needs one."""


@dataclass(frozen=True)
class Changes:
    """What a restored algorithm shall have that differs from what was saved; None leaves that.

    Attributes:
        policy_mapping_fn: Which policy acts for which agent from now on; None for what is left of the saved one.
        policies_to_train: Ids of those that are trained from now on.
        num_env_runners: How many runners.
        env: Another environment for the runners, a gymnasium id.
        hyperparameters: Settings of the optimizers that take the place of the saved ones, such as {"lr": 1e-4}.
    """

    policy_mapping_fn: Given = None
    policies_to_train: Ids = None
    num_env_runners: int | None = None
    env: str | None = None
    hyperparameters: Mapping[str, Any] | None = None

    def checked(self, ids: Collection[str], trust: tuple[str, ...]) -> Changes:
        """The same with the mapping resolved, before anything is built.

        Raises:
            ConfigError: A mapping or a number that cannot be.
            SelectionError: The mapping names a policy that is not among the ids.
            UntrustedClassError: The mapping is the path of a function that nobody vouched for.
        """
        if self.num_env_runners is not None and self.num_env_runners < 1:
            raise ConfigError("num_env_runners", expected="at least 1", found=str(self.num_env_runners))
        if self.policy_mapping_fn is None:
            return self
        return replace(self, policy_mapping_fn=PolicyMapping.of(self.policy_mapping_fn, ids, trust=trust))

    def require_there(self, components: Collection[str]) -> None:
        """Refuse changes to what a checkpoint does not have.

        Args:
            components: Names of those that it has.

        Raises:
            ConfigError: A change of something that is not there.
        """
        for name, needed in _NEEDS.items():
            if getattr(self, name) is not None and not set(needed) & set(components):
                raise ConfigError(
                    name,
                    expected=f"a checkpoint with {' or '.join(needed)}",
                    found=f"one with {listed(components)}" if components else "policies alone",
                    fix=f"leave {name} away",
                )

    def apply(self, algorithm: Algorithm) -> None:
        """Make the changes."""
        parts = algorithm.parts
        if parts.runners is not None and (self.num_env_runners or self.env):
            parts.runners.remake(self.num_env_runners or len(parts.runners), env=self.env)
        if parts.evaluation is not None and self.env:
            parts.evaluation.remake(len(parts.evaluation), env=self.env)
        if self.policy_mapping_fn is not None:
            algorithm.set_policy_mapping(self.policy_mapping_fn)
        if parts.learner is not None and self.policies_to_train is not None:
            parts.learner.policies_to_train = tuple(self.policies_to_train)
        if self.hyperparameters:
            required(parts.learner, "learner").set_hyperparameters(self.hyperparameters)
