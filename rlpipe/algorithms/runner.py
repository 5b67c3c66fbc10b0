"""The component that lets policies act in environments, to collect experience and to evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Self

from rlpipe.algorithms.collected import Collected, Samples
from rlpipe.algorithms.env_runner import EnvSpaces, Episode, make_env, require_fit, rollout, spaces_of
from rlpipe.algorithms.policy_mapping import Given, PolicyMapping
from rlpipe.algorithms.running_statistics import (
    Moments,
    moments_in,
    moments_of,
    normalisation_of,
    set_moments,
)
from rlpipe.algorithms.stepping import Stepping, spaces_of_policy
from rlpipe.algorithms.weights import set_acting, slim_copy
from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.classes import class_path_of
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.errors import ConfigError, SpecError
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.policies.player import Player
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_tree import CONTAINER
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import Array, State, entries

_PLAN = ("env", "num_envs", "policy_mapping")


class EnvRunner(Checkpointable):
    """Steps environments of gymnasium with policies of its own, which hold just what acts.

    Each of its environments is one agent: "0", "1", ... Policies that normalise get their statistics updated by what
    `sample` sees; `evaluate` leaves them as they are. No environment is made before one of the two is called.

    Episodes are not part of the state. After a restore, and after `reset()`, all environments begin again from seeds
    that follow from `seed`, `index` and the recorded number of resets, and so does chance in acting: a runner that was
    saved and reset goes on as one that was restored.

    Args:
        policies: Id -> policy; copies of what acts in them are made.
        env: A gymnasium id.
        num_envs: How many environments are stepped together.
        policy_mapping_fn: Which policy acts for which agent; a lone policy acts for all.
        seed: Where all chance starts from.
        index: Tells runners of one seed apart.
        trust: Patterns of class paths that may be imported beside rlpipe's.

    Raises:
        ConfigError: No environment to step.
        SelectionError: The mapping names a policy that is not there.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        *,
        env: str,
        num_envs: int = 1,
        policy_mapping_fn: Given = None,
        seed: int = 0,
        index: int = 0,
        trust: tuple[str, ...] = (),
    ) -> None:
        if num_envs < 1:
            raise ConfigError("num_envs", expected="at least 1", found=str(num_envs))
        self.env, self.num_envs, self.index, self.trust = env, num_envs, index, trust
        self.policies = MultiRLModule({name: slim_copy(each, trust=trust) for name, each in policies.items()})
        self.mapping = PolicyMapping.of(policy_mapping_fn, self.policies.keys(), trust=trust)
        self.seed, self.reset_count, self.env_steps, self.episode_count = seed, 0, 0, 0
        self.observation_counts = {name: 0 for name, each in self.policies.items() if normalisation_of(each)}
        self._fresh: dict[str, Moments] = {}
        self._stepping: Stepping | None = None
        self._has_begun = False

    def agents(self) -> tuple[str, ...]:
        """One for each environment."""
        return tuple(map(str, range(self.num_envs)))

    def policy_of(self, agent: str) -> str:
        """The id of the policy that acts for an agent.

        Raises:
            ConfigError: There are several policies and no mapping.
            SelectionError: The mapping leads to none.
        """
        if self.mapping is None:
            raise ConfigError(
                "policy_mapping_fn",
                expected=f"which of {', '.join(self.policies)} acts for agent {agent!r}",
                found="nothing",
                fix="give a mapping such as {'*': 'p0'}",
            )
        return self.mapping.policy_id(agent, self.policies.keys())

    def reset(self) -> None:
        """Begin all episodes anew, from the recorded seeds."""
        self._running().begin((self.seed, self.index, self.reset_count))
        self.reset_count, self._has_begun = self.reset_count + 1, True

    def sample(self, n: int) -> Samples:
        """Let the policies explore for `n` steps, rounded up to whole steps of all environments.

        Returns:
            Policy id -> what its agents met and did, see `Samples`; observations are as the module takes them.

        Raises:
            ConfigError: `n` is less than 1, or there is no such environment.
            EnvironmentMismatchError: A policy cannot act in it.
        """
        if n < 1:
            raise ConfigError("sample(n)", expected="n of at least 1", found=str(n))
        if not self._has_begun:
            self.reset()
        rows = self._rows()
        collected = {name: Collected(self.policies[name]) for name in rows}
        for _ in range(ceil(n / self.num_envs)):
            outcome = self._running().step(collected, rows)
            self.env_steps += int(outcome.is_step.sum())
            self.episode_count += int((outcome.terminated | outcome.truncated).sum())
        for name, each in collected.items():
            self._learn_statistics(name, each.rows())
        return {name: each.arrays() for name, each in collected.items()}

    def _rows(self) -> dict[str, list[int]]:
        """Policy id -> the environments in which it acts, sorted."""
        agents = list(enumerate(map(self.policy_of, self.agents())))
        return {
            name: [index for index, acting in agents if acting == name] for name in sorted({name for _, name in agents})
        }

    def _learn_statistics(self, name: str, rows: Array | None) -> None:
        if rows is None or not len(rows):
            return
        fresh = moments_of(rows)
        self._fresh[name] = self._fresh[name].joined(fresh) if name in self._fresh else fresh
        self.set_moments(name, moments_in(self.policies[name], self.observation_counts[name]).joined(fresh))

    def take_fresh_moments(self) -> dict[str, Moments]:
        """Moments of what was seen since this was last called: policy id -> moments."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    def set_moments(self, name: str, moments: Moments) -> None:
        """Let a policy normalise by these moments, and go on from them."""
        set_moments(self.policies[name], moments)
        self.observation_counts[name] = moments.count

    def evaluate(self, n: int, *, policy_id: str | None = None, max_steps: int | None = None) -> list[Episode]:
        """Let a policy act without chance for `n` episodes, episode `i` from the seed `seed` + `i`.

        Sampling goes on afterwards as if nothing had been.

        Args:
            n: How many.
            policy_id: Which policy; None for the one of the first agent.
            max_steps: Where to stop an episode that does not end; None: nowhere.

        Raises:
            ConfigError: `n` is less than 1, or there is no such environment.
            EnvironmentMismatchError: The policy cannot act in it.
        """
        if n < 1:
            raise ConfigError("evaluate(n)", expected="n of at least 1", found=str(n))
        name = self.policy_of("0") if policy_id is None else policy_id
        policy: Policy = self.policies[name]
        env = make_env(self.env)
        try:
            own, found = spaces_of_policy(policy), spaces_of(env)
            require_fit(own, found, policy_id=name, env_id=self.env)
            both = EnvSpaces(own.observation, found.action)
            seeds = range(self.seed, self.seed + n)
            return [rollout(env, both, Player(policy), seed=seed, max_steps=max_steps) for seed in seeds]
        finally:
            env.close()

    def set_weights(self, weights: Mapping[str, State]) -> None:
        """Take over weights: policy id -> what acts in that policy. Statistics among them count.

        Raises:
            SelectionError: A policy that is not there.
            StateMismatchError: Weights of another policy.
        """
        for name, state in weights.items():
            set_acting(self.policies[name], state)
        self._fresh = {name: moments for name, moments in self._fresh.items() if name not in weights}

    def add_policy(self, name: str, policy: Policy) -> None:
        """Take in a copy of what acts in another policy."""
        self.policies.add_rl_module(name, slim_copy(policy, trust=self.trust))
        if normalisation_of(policy):
            self.observation_counts[name] = 0

    def remove_policy(self, name: str) -> None:
        """Let go of a policy."""
        self.policies.remove_rl_module(name)
        self.observation_counts.pop(name, None)
        self._fresh.pop(name, None)
        if self._stepping is not None:
            self._stepping.forget(name)

    def close(self) -> None:
        """Close the environments; the next `sample` makes new ones and begins new episodes."""
        if self._stepping is not None:
            self._stepping.close()
        self._stepping, self._has_begun = None, False

    def _running(self) -> Stepping:
        if self._stepping is None:
            self._stepping = Stepping(self.env, self.num_envs, self.policies, list(self._rows()))
        return self._stepping

    def get_checkpointable_components(self) -> list[tuple[str, Restorable]]:
        """Its policies."""
        return [(CONTAINER, self.policies)]

    def get_spec(self) -> Spec:
        """See `Restorable`."""
        mapping = None if self.mapping is None else self.mapping.to_json()
        options = {"env": self.env, "num_envs": self.num_envs, "policy_mapping": mapping}
        return Spec(class_path_of(type(self)), {}, options)

    def get_own_state(self) -> State:
        """What seeds follow from, and counts; statistics are state of the policies."""
        return {
            "seed": self.seed,
            "reset_count": self.reset_count,
            "env_steps": self.env_steps,
            "episode_count": self.episode_count,
            "observation_counts": dict(self.observation_counts),
        }

    def get_own_roles(self) -> Mapping[str, Role]:
        """All of it is for training."""
        return dict.fromkeys(entries(self.get_own_state()), "training")

    def set_own_state(self, state: State) -> None:
        """See `Restorable`. Episodes begin anew."""
        self.seed, self.reset_count = state["seed"], state["reset_count"]
        self.env_steps, self.episode_count = state["env_steps"], state["episode_count"]
        self.observation_counts = dict(state["observation_counts"])
        self._fresh, self._has_begun = {}, False

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """See `Restorable`."""
        del device
        if spec.options.keys() != set(_PLAN):
            raise SpecError("this is no runner", expected=", ".join(_PLAN), found=", ".join(spec.options))
        made = cls(
            {},
            env=spec.options["env"],
            num_envs=spec.options["num_envs"],
            trust=trust,
        )
        made._hold(children[CONTAINER], PolicyMapping.from_json(spec.options["policy_mapping"]))
        return made

    def _hold(self, policies: MultiRLModule, mapping: Given) -> None:
        self.policies = policies
        self.mapping = PolicyMapping.of(mapping, policies.keys(), trust=self.trust)
        self.observation_counts = {name: 0 for name, each in policies.items() if normalisation_of(each)}
