"""The torch base of every RL module."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, cast

import torch
from torch import nn

from rlpipe.checkpoint.classes import class_path_of, resolve_class, with_trust
from rlpipe.checkpoint.glance import is_glance
from rlpipe.checkpoint.place import Place
from rlpipe.checkpoint.reader import When
from rlpipe.checkpoint.restore import RestoreReport, build, object_at, restore_into
from rlpipe.checkpoint.steady import steadily
from rlpipe.errors import SpecError
from rlpipe.modules.inference_only_api import InferenceOnlyAPI
from rlpipe.modules.inference_part import InferenceCheckpointable
from rlpipe.modules.module_checkpoint import read_module
from rlpipe.modules.rl_module import RLModuleSpec, attribute_list, classes_in, plain_json, require_options, space_of
from rlpipe.modules.torch.batch import DECISIONS, Batch, Outputs
from rlpipe.modules.torch.building import drawing_nothing
from rlpipe.modules.torch.module_state import (
    Aliases,
    aliases_of,
    check_ties,
    load_state,
    memory_in,
    own_tensor,
    roles_of,
    share_tensor,
    state_of,
    versions_of,
)
from rlpipe.modules.torch.probing import act, place_of, probe_of
from rlpipe.modules.torch.proof import require_needless_in, require_restorable, stray_tensors
from rlpipe.modules.torch.slimming import remove_attributes, view_of
from rlpipe.modules.torch.tensors import require_initialised
from rlpipe.modules.torch.trial import first_line, is_trial
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spaces import Space
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import Array, State


class RLModule(nn.Module, InferenceCheckpointable):
    """A torch network that turns prepared observations into the outputs that decide. The names are RLlib's.

    A subclass builds its networks in `setup` and implements `forward_inference`, which puts out a dict with one of
    `logits`, `mean`, `q`, `action`.

    Args:
        observation_space: Space of the prepared observations.
        action_space: Space of the actions.
        inference_only: Leave out what is not needed to act.
        learner_only: The module never acts.
        model_config: The architecture as plain data.
        non_inference_attributes: Paths of what is not needed to act; None asks `get_non_inference_attributes`.
        trust: Patterns of class paths that the module may import beside rlpipe's.
    """

    COMPONENTS: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Further names of submodules whose features can be exported alone -> their dotted paths."""

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        inference_only: bool = False,
        learner_only: bool = False,
        model_config: Mapping[str, Any] | None = None,
        non_inference_attributes: Collection[str] | None = None,
        trust: tuple[str, ...] = (),
    ) -> None:
        require_options(inference_only=inference_only, learner_only=learner_only)
        super().__init__()
        self.observation_space = space_of(observation_space)
        self.action_space = space_of(action_space)
        self.inference_only = inference_only
        self.learner_only = learner_only
        self.non_inference_attributes = attribute_list(non_inference_attributes)
        self.trust = with_trust(trust, *classes_in(model_config))
        full = self.full_model_config(model_config or {})
        self.model_config: Mapping[str, Any] = plain_json(full, where="model_config")
        self._memory: Mapping[str, Mapping[str, Any]] = {}
        self._aliases: Aliases = {}
        self._proof: Any = None
        if inference_only and not is_trial():
            require_needless_in(self.get_module_spec(), removable_attributes, trust=self.trust)
        self.setup()
        require_initialised(self)
        if inference_only:
            removed = removable_attributes(self)
            self._aliases = aliases_of(self.state_dict(), removed)
            remove_attributes(self, removed)
            self.eval().requires_grad_(requires_grad=False)
        self._memory = memory_of(self)

    @classmethod
    def full_model_config(cls, model_config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The config with every default filled in, so that a later default does not change what was saved.

        Raises:
            SpecError: A field that the class does not know, or a value that does not fit.
        """
        return model_config

    @classmethod
    def sees_parts(cls, model_config: Mapping[str, Any]) -> bool:
        """Whether default stages leave the parts of a Dict or Tuple apart, and do not put them into one row."""
        del model_config
        return False

    def setup(self) -> None:
        """Build the networks from `observation_space`, `action_space` and `model_config`."""

    @abstractmethod
    def forward_inference(self, batch: Batch) -> Outputs:
        """The outputs that decide without exploring, as tensors (B, ...)."""

    def forward_exploration(self, batch: Batch) -> Outputs:
        """The outputs that decide while collecting data; without another definition those of `forward_inference`."""
        return self.forward_inference(batch)

    def forward_train(self, batch: Batch) -> Outputs:
        """The outputs that losses need; without another definition those of `forward_exploration`."""
        return self.forward_exploration(batch)

    def forward(self, batch: Batch) -> Outputs:
        """`forward_train` in train mode, else `forward_inference`."""
        return self.forward_train(batch) if self.training else self.forward_inference(batch)

    def get_initial_state(self) -> dict[str, Any]:
        """What is remembered at an episode's start: name -> array or tensor without batch axis; {} for no memory.

        `forward_inference` is given it, with a batch axis, as `batch["state_in"]`, and puts out `state_out` with the
        same names, shapes and dtypes.
        """
        return {}

    def get_initial_train_state(self) -> dict[str, Any]:
        """What `forward_train` remembers beside `get_initial_state`, such as a critic's own memory; {} for nothing.

        Like that one; it is among `state_in` and `state_out` of `forward_train` alone.
        """
        return {}

    def takes_sequences(self) -> bool:
        """Whether `forward_train` is given sequences (B, T, ...), with `episode_start` and `state_in`.

        It is asked of modules that only act, too. Without another definition those do that remember something.
        """
        return bool(self.get_initial_state())

    def output_kind(self) -> str:
        """What inference puts out: logits, mean, squashed (a mean before tanh), q or action.

        Without another definition the module is tried, and the name of the output is the answer.

        Raises:
            SpecError: It fails on observations of its space.
        """
        view = view_of(self)
        try:
            outputs = act(view, probe_of(self))
        except Exception as error:
            raise SpecError(
                f"{class_path_of(type(self))} fails on observations of its space",
                expected=f"a forward_inference for {self.observation_space.describe()}",
                found=first_line(error),
            ) from error
        return next((name for name in DECISIONS if name in outputs), ", ".join(outputs))

    def get_module_spec(self) -> RLModuleSpec:
        """What the module is and how it was built."""
        return RLModuleSpec(
            type(self),
            self.observation_space,
            self.action_space,
            self.inference_only,
            self.learner_only,
            self.model_config,
            self.non_inference_attributes,
            self._memory,
        )

    def get_spec(self) -> Spec:
        """See `Restorable`."""
        spec = self.get_module_spec()
        config = spec.to_json()
        return Spec(config.pop("class"), config, spec.options())

    def get_own_state(self) -> State:
        """Parameters and buffers: `{"encoder": {"0": {"weight": ...}}}`; views on the CPU."""
        return state_of(self.state_dict(), self._aliases)

    def get_own_roles(self) -> Mapping[str, Role]:
        """The role of each entry. First the state is proven to hold what acting needs, and its inference part too.

        Raises:
            SpecError: A module built again with the state acts differently, or one without its non-inference
                attributes does; what is to blame is named.
        """
        attributes = removable_attributes(self)
        if not self.learner_only and place_of(self).type != "meta" and not is_trial() and not is_glance():
            self._prove(attributes)
        return roles_of(self.state_dict(), self._aliases, attributes)

    def _prove(self, attributes: tuple[str, ...]) -> None:
        # A snapshot is taken often; nothing has to be proven twice for the same numbers.
        proof = (attributes, versions_of(self.state_dict(keep_vars=True)), versions_of(dict(stray_tensors(self))))
        if proof != self._proof:
            require_restorable(self, attributes)
            self._proof = proof

    def set_own_state(self, state: State) -> None:
        """See `Restorable`."""
        load_state(self, self.state_dict(), state)

    def check_own_state(self, state: State) -> None:
        """See `Restorable`.

        Raises:
            TieError: Two names of one tensor have different values.
        """
        check_ties(self.state_dict(), state, self._aliases)

    def get_own_memory(self) -> Mapping[str, Array]:
        """See `Restorable`."""
        return memory_in(self.state_dict())

    def own_tensor(self, key: str) -> torch.Tensor:
        """See `HoldsTensors`."""
        return own_tensor(self, key)

    def share_tensor(self, key: str, tensor: torch.Tensor) -> None:
        """See `HoldsTensors`."""
        share_tensor(self, key, tensor)

    def restore_from_path(self, path: str | os.PathLike[str], *, component: str | None = None) -> RestoreReport:
        """Take over the state of a module's or a policy's checkpoint; a slim module reads the inference part alone.

        Args:
            path: The checkpoint's directory.
            component: None: a module has no components.

        Raises:
            CheckpointError: There is no checkpoint, or it is damaged.
            SpecError: It is of something else.
            StateMismatchError: Missing, unexpected and mismatched entries, all of them; nothing was changed.
        """
        target, slim = object_at(self, component or ""), True if self.inference_only else None

        def restore(directory: Place) -> RestoreReport:
            return restore_into(target, read_module(directory, inference_only=slim, arrays="later"))

        return steadily(path, restore)

    @classmethod
    def from_checkpoint(
        cls,
        path: str | os.PathLike[str],
        *,
        inference_only: bool | None = None,
        device: str = "cpu",
        trust: tuple[str, ...] = (),
    ) -> Self:
        """Build the module of a checkpoint; of a policy's checkpoint, the module in it.

        Args:
            path: The directory of a module or of a policy.
            inference_only: True builds it slim, in eval mode, and reads no training array. None takes what is there.
            device: Where its arrays live. On "meta" no array is read.
            trust: Classes that the caller vouches for; this one is trusted.

        Raises:
            CheckpointError: There is no checkpoint, or it is damaged.
            UntrustedClassError: A class that nobody vouched for; it was not imported.
            SpecError: It is of another class, cannot be built, or has no training part and `inference_only` is False.
            StateMismatchError: The state does not fit what the spec builds.
        """
        trusted = with_trust(trust, class_path_of(cls))
        when: When = "none" if device == "meta" else "later"

        def read_and_build(directory: Place) -> Any:
            snapshot = read_module(directory, inference_only=inference_only, arrays=when)
            resolve_class(snapshot.spec.class_path, cls, trust=trusted, where=str(path))
            return build(snapshot, device=device, trust=trusted)

        return cast("Self", steadily(path, read_and_build))

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """See `Restorable`."""
        del children
        config = {"class": spec.class_path, **spec.config}
        built = RLModuleSpec.from_json(config, spec.options, where=spec.class_path)
        with drawing_nothing(device):
            return cast("Self", replace(built, module_class=cls).build(device=device, trust=trust))


def removable_attributes(module: RLModule) -> tuple[str, ...]:
    """Paths of what is not needed to act: the spec's list, else the class's."""
    if module.non_inference_attributes is not None:
        return module.non_inference_attributes
    own = module.get_non_inference_attributes() if isinstance(module, InferenceOnlyAPI) else None
    return attribute_list(own) or ()


def memory_of(module: RLModule) -> dict[str, Mapping[str, Any]]:
    """What a module remembers, as its spec says it; see `memory_shapes`.

    Raises:
        SpecError: Its `get_initial_state` gives something else than arrays by name.
    """
    initial = module.get_initial_state()
    strange = [name for name, value in initial.items() if not hasattr(value, "shape") or not hasattr(value, "dtype")]
    if strange:
        raise SpecError(
            f"{class_path_of(type(module))}.get_initial_state() holds no arrays",
            expected="name -> array without a batch axis",
            found=", ".join(f"{name}: {type(initial[name]).__name__}" for name in strange),
            fix='flatten nested states: {"actor/h": ..., "actor/c": ...}',
        )
    return {
        name: {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        for name, value in initial.items()
    }
