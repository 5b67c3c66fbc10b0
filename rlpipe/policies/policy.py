"""A policy: raw observations in, actions that the environment takes out."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Self, cast

import torch

from rlpipe.checkpoint.place import Place
from rlpipe.checkpoint.reader import When
from rlpipe.checkpoint.steady import steadily
from rlpipe.errors import SpecError, listed
from rlpipe.modules.inference_part import InferenceCheckpointable
from rlpipe.modules.module_checkpoint import STAGE_NAMES
from rlpipe.modules.torch.building import drawing_nothing
from rlpipe.modules.torch.probing import place_of
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.modules.torch.slimming import clean
from rlpipe.policies.aside import Aside
from rlpipe.policies.asking import as_array, asked, evaluating, graphs_of
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.interface import ACTION, ACTION_MASK, NEXT, STATE, Port, input_ports
from rlpipe.policies.observations import read_observations
from rlpipe.policies.policy_graph import PLAIN, PolicyGraph
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.policies.policy_tree import build_policies, read_policies
from rlpipe.policies.stage import initial_states
from rlpipe.policies.step import Step, forgetful
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spaces import nested_batch
from rlpipe.snapshot.spec import Json, Spec
from rlpipe.snapshot.state import Array, State, copied, entries

__all__ = ["Policy", "PolicySpec", "Step", "evaluating"]


class Policy(InferenceCheckpointable):
    """An RL module with the stages before and behind it.

    Args:
        spec: What it is.
        module: The module of the spec.
        statistics: Stage type -> statistics, for the observation stages that keep some; None for stages that have seen
            nothing. float64.
        metadata: Plain facts, such as {"trained": False}.

    Raises:
        SpecError: The module keeps state under a reserved name.
        NormalizerError: Statistics that cannot normalise.
    """

    def __init__(
        self,
        spec: PolicySpec,
        module: RLModule,
        *,
        statistics: State | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> None:
        self.module = module
        self.spec = replace(spec, module=module.get_module_spec())
        self.metadata: Mapping[str, Json] = dict(metadata or {})
        if reserved := STAGE_NAMES & {clean(name).partition(".")[0] for name in module.state_dict()}:
            raise SpecError(
                f"the module keeps state under {listed(reserved)}",
                expected=f"other names than {listed(STAGE_NAMES)}, which belong to the policy's stages",
                found=listed(reserved),
                fix="rename the attribute of the module",
            )
        self._ports = input_ports(self.spec, PLAIN)
        initial = initial_states(spec.observation, spec.observation_space)
        self._statistics = initial if statistics is None else statistics
        self._place = place_of(module)
        self._use(*self._graphs_of(self._statistics))

    def _graphs_of(self, statistics: State, options: GraphOptions = PLAIN) -> tuple[PolicyGraph, PolicyGraph]:
        """What is exported, and what runs here: with the trainers' precision, where the device has it."""
        return graphs_of(self.spec, self.module, statistics, options, self._place)

    def _use(self, exported: PolicyGraph, running: PolicyGraph) -> None:
        self._graphs = {PLAIN: (exported, running)}

    @property
    def memory(self) -> tuple[Port, ...]:
        """What it carries through an episode; () for one that does not remember."""
        return tuple(port for port in self._ports if port.name.partition(".")[0] == STATE)

    @property
    def takes_mask(self) -> bool:
        """Whether some choices can be forbidden by `action_mask`."""
        return any(port.name == ACTION_MASK for port in self._ports)

    def compute_actions(
        self,
        observations: Any,
        *,
        state: Mapping[str, Array] | None = None,
        episode_start: Any = None,
        action_mask: Any = None,
    ) -> Any:
        """Deterministic actions for observations.

        Args:
            observations: A batch (B, *shape) of the observation space, nested for Dict and Tuple; or a single
                observation, which is recognised by its shape.
            state: See `step`, which a policy that remembers needs to go on.
            episode_start: See `step`.
            action_mask: See `step`.

        Returns:
            Actions (B, *shape) in the action space's dtype, nested as it is; one action (*shape) for a single
            observation.

        Raises:
            ObservationError: Another structure, shape or dtype, or NaN.
            SpecError: The network fails, or puts out something that the action stages cannot take; or the policy
                remembers, and no state is given.
        """
        if state is None and self.memory:
            raise forgetful("this policy", "policy", SpecError)
        return self.step(observations, state, episode_start=episode_start, action_mask=action_mask).actions

    def step(
        self,
        observations: Any,
        state: Mapping[str, Array] | None = None,
        *,
        episode_start: Any = None,
        action_mask: Any = None,
    ) -> Step:
        """Deterministic actions, and what is remembered for the next step.

        Args:
            observations: See `compute_actions`.
            state: What the last step gave, (B, ...) each; None at the start of episodes.
            episode_start: (B,) bool, the rows that begin an episode: their state is put back, whatever it holds.
            action_mask: (B, n) bool, which choices are allowed, the blocks of MultiDiscrete behind each other; None
                allows all.

        Raises:
            ObservationError: See `compute_actions`; or another state, or a mask of another shape.
            SpecError: See `compute_actions`.
        """
        read = read_observations(self.spec.observation_space, observations)
        aside = Aside(state=state, episode_start=episode_start, action_mask=action_mask)
        found = self.answers({**read.arrays, **aside.arrays(self._ports, read)})
        actions = {name: array[0] if read.is_single else array for name, array in found.items() if _is_action(name)}
        kept = {name.removesuffix(NEXT): array for name, array in found.items() if name.endswith(NEXT)}
        return Step(nested_batch(self.spec.action_space, actions, ACTION), kept)

    def answers(self, named: Mapping[str, Array], options: GraphOptions = PLAIN) -> dict[str, Array]:
        """One step as a function of flat named arrays, with the precision that the policy acts with.

        Args:
            named: Input name -> (B, ...), all that `graph(options)` takes, in its dtypes.
            options: How it decides, and what it gives.

        Returns:
            Output name -> (B, ...).

        Raises:
            SpecError: The network fails, or puts out something that the action stages cannot take.
        """
        return {name: as_array(tensor) for name, tensor in self._asked(named, options, "answer").items()}

    def decisive(self, named: Mapping[str, Array], options: GraphOptions = PLAIN) -> Array:
        """What the module puts out, before any mask and any choice, as a function of flat named arrays."""
        found: Array = as_array(self._asked(named, options, "decision"))
        return found

    def scores(self, observations: Any) -> Array:
        """What the action is chosen from: logits or Q values; where nothing is chosen, what the module puts out.

        A policy that remembers gives those of an episode's first step.
        """
        return self._of_first_step("weighed", observations)

    def margins(self, observations: Any) -> Array:
        """By how much the least sure choice is ahead of the next: (B,); infinite where nothing is chosen."""
        return self._of_first_step("sureness", observations)

    def _of_first_step(self, name: str, given: Any) -> Array:
        read = read_observations(self.spec.observation_space, given)
        named = {**read.arrays, **Aside().arrays(self._ports, read)}
        found: Array = as_array(self._asked(named, PLAIN, name))
        return found[0] if read.is_single else found

    def _asked(self, named: Mapping[str, Array], options: GraphOptions, name: str) -> Any:
        graph = self._graph_of(options)[1]
        return asked(graph, name, named, self.module, self._place)

    def graph(self, options: GraphOptions = PLAIN) -> PolicyGraph:
        """The policy as one torch module with flat inputs and outputs, around the same parameters.

        It takes a tensor (B, *shape) for each of `input_names`, in the environment's dtype, and gives one for each of
        `output_names`. It computes in float32, as deployment runtimes do, where `compute_actions` normalises in
        float64. Copy it before you change it.

        Raises:
            UnsupportedModuleError: Options that such a policy cannot have.
        """
        return self._graph_of(options)[0]

    def running_graph(self) -> PolicyGraph:
        """The graph that `compute_actions` runs: as `graph()`, with the trainers' precision where the device has it."""
        return self._graph_of(PLAIN)[1]

    def get_statistics(self) -> State:
        """A copy of the stages' statistics: stage type -> float64 arrays."""
        return copied(self._statistics)

    def set_statistics(self, statistics: State) -> None:
        """Take over statistics of the observation stages, all of them.

        Raises:
            NormalizerError: Statistics that cannot normalise; nothing was changed.
        """
        self._use(*self._graphs_of(statistics))
        self._statistics = copied(statistics)

    def _graph_of(self, options: GraphOptions) -> tuple[PolicyGraph, PolicyGraph]:
        if (place := place_of(self.module)) != self._place:
            self._place = place
            self._use(*self._graphs_of(self._statistics))
        if options not in self._graphs:
            self._graphs[options] = self._graphs_of(self._statistics, options)
        for graph in self._graphs[options]:
            graph.refresh()
        return self._graphs[options]

    def get_spec(self) -> Spec:
        """See `Restorable`."""
        return self.spec.to_spec()

    def get_own_state(self) -> State:
        """See `Restorable`."""
        statistics = {"observation": self._statistics} if self._statistics else {}
        return {**self.module.get_own_state(), **statistics}

    def get_own_roles(self) -> Mapping[str, Role]:
        """Those of the module; statistics are for inference."""
        statistics: dict[str, Role] = dict.fromkeys(entries({"observation": self._statistics}), "inference")
        return {**self.module.get_own_roles(), **(statistics if self._statistics else {})}

    def check_own_state(self, state: State) -> None:
        """See `Restorable`.

        Raises:
            NormalizerError: Statistics that cannot normalise.
            TieError: Two names of one tensor have different values.
        """
        module, statistics = _parted(state)
        self.module.check_own_state(module)
        if statistics:
            self._graphs_of(statistics)

    def set_own_state(self, state: State) -> None:
        """See `Restorable`."""
        module, statistics = _parted(state)
        graphs = self._graphs_of(statistics) if statistics else None
        self.module.set_own_state(module)
        if graphs is not None:
            self._statistics = copied(statistics)
            self._use(*graphs)

    def get_own_memory(self) -> Mapping[str, Array]:
        """See `Restorable`."""
        return self.module.get_own_memory()

    def get_snapshot_metadata(self) -> Mapping[str, Json]:
        """See `Restorable`."""
        return self.metadata

    def set_snapshot_metadata(self, metadata: Mapping[str, Json]) -> None:
        """See `Restorable`."""
        self.metadata = dict(metadata)

    def own_tensor(self, key: str) -> torch.Tensor:
        """See `HoldsTensors`."""
        return self.module.own_tensor(key)

    def share_tensor(self, key: str, tensor: torch.Tensor) -> None:
        """See `HoldsTensors`."""
        self.module.share_tensor(key, tensor)

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """See `Restorable`."""
        del children
        policy = PolicySpec.from_spec(spec)
        with drawing_nothing(device):
            return cls(policy, policy.module.build(device=device, trust=trust))

    @classmethod
    def from_checkpoint(  # type: ignore[override]
        cls,
        path: str | os.PathLike[str],
        policy_ids: Collection[str] | None = None,
        *,
        device: str = "cpu",
        trust: tuple[str, ...] = (),
    ) -> Self | dict[str, Self]:
        """The policy of a policy's directory; of any other checkpoint its policies by id, as RLlib does it.

        Only the files of the chosen policies are opened. Policies come in eval mode.

        Args:
            path: A checkpoint of an algorithm, a container or a policy.
            policy_ids: Ids or globs, None for all; only where the checkpoint has several policies.
            device: Where they live; on "meta" no array is read.
            trust: Classes that the caller vouches for.

        Raises:
            CheckpointError: There is no checkpoint, or it is damaged.
            SelectionError: An id that is not there.
            SpecError: The checkpoint holds no policies, or is one and `policy_ids` are given.
            TieError: A chosen policy shares arrays with one that is not chosen.
        """
        when: When = "none" if device == "meta" else "later"

        def read_and_build(directory: Place) -> Any:
            tree = read_policies(directory, policy_ids, arrays=when)
            built = build_policies(tree, device=device, trust=trust)
            return built[""] if tree.is_single else built

        return cast("Self | dict[str, Self]", steadily(path, read_and_build))

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], spec: PolicySpec, *, device: str = "cpu", trust: tuple[str, ...] = ()
    ) -> Self:
        """A policy of a spec with a state of `get_state()`. RLlib's state carries its spec; here they are two things.

        Raises:
            StateMismatchError: The state is not of this spec, or only a part of it.
        """
        policy = cls(spec, spec.module.build(device=device, trust=trust))
        policy.set_state(state)
        policy.module.eval()
        return policy


def _is_action(name: str) -> bool:
    return name.partition(".")[0] == ACTION


def _parted(state: State) -> tuple[State, State]:
    """The module's part of a policy's state, and the statistics."""
    return {name: value for name, value in state.items() if name not in STAGE_NAMES}, state.get("observation", {})
