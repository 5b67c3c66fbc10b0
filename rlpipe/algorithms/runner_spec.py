"""How policies are let act, as data. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlpipe.algorithms.policy_mapping import Given
    from rlpipe.algorithms.runner import EnvRunner
    from rlpipe.policies.policy import Policy


@dataclass(frozen=True, kw_only=True)
class RunnerSpec:
    """A runner; see `EnvRunner`.

    Attributes:
        env: A gymnasium id.
        num_envs: How many environments are stepped together.
        seed: Where all chance starts from.
    """

    env: str
    num_envs: int = 1
    seed: int = 0

    def build(self, policies: Mapping[str, Policy], mapping: Given, *, trust: tuple[str, ...] = ()) -> EnvRunner:
        """A runner of policies.

        Raises:
            ConfigError: Fewer than one environment.
            SelectionError: The mapping names a policy that is not there.
        """
        from rlpipe.algorithms.runner import EnvRunner

        return EnvRunner(
            policies, env=self.env, num_envs=self.num_envs, policy_mapping_fn=mapping, seed=self.seed, trust=trust
        )
