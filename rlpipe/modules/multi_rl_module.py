"""Several modules under their ids, with what they share."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import nn

from rlpipe.checkpoint.classes import class_path_of, resolve_class
from rlpipe.checkpoint.glance import is_glance
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.errors import IdError, SelectionError, SpecError, listed
from rlpipe.modules.container_proof import Parts, network_of, require_needless, require_same_sharing
from rlpipe.modules.inference_only_api import InferenceOnlyAPI
from rlpipe.modules.inference_part import InferenceCheckpointable
from rlpipe.modules.rl_module import attribute_list, plain_json
from rlpipe.modules.torch import module_state
from rlpipe.modules.torch.building import built_on, drawing_nothing
from rlpipe.modules.torch.slimming import remove_attributes
from rlpipe.modules.torch.tensors import require_initialised
from rlpipe.modules.torch.trial import is_trial
from rlpipe.modules.torch.tying import tie
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import State

_NETWORKS = "_networks."


class MultiRLModule(nn.Module, InferenceCheckpointable):
    """Modules, or policies, under their ids; a subclass may hold networks of its own, and layers that modules share.

    A subclass builds its own networks in `setup`; there it may put a layer of its own, or of one module, into others.
    What is shared is saved with each module, so that each stands alone, and is one again when all are restored.

    Args:
        modules: Id -> RL module or policy.
        model_config: Plain data for `setup`.
        inference_only: Leave out the container's own non-inference attributes.
        trust: Patterns of class paths that the container may import beside rlpipe's.

    Raises:
        IdError: An id that cannot name a directory.
        SpecError: A module and a network of the container have the same name, or a slim container acts differently.
    """

    def __init__(
        self,
        modules: Mapping[str, Any],
        *,
        model_config: Mapping[str, Any] | None = None,
        inference_only: bool = False,
        trust: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        validate_ids(modules)
        self._rl_modules = dict(modules)
        self._networks = nn.ModuleList(map(network_of, self._rl_modules.values()))
        self.model_config = plain_json(model_config or {}, where="model_config")
        self.inference_only = inference_only
        self.trust = trust
        self._aliases: module_state.Aliases = {}
        self._proof: Any = None
        self._is_as_set_up = True
        if inference_only and isinstance(self, InferenceOnlyAPI) and not is_trial():
            require_needless(self._parts())
        self.setup()
        require_initialised(self, besides=_NETWORKS)
        if inference_only:
            removed = self.removable_attributes()
            self._aliases = module_state.aliases_of(self._own_state_dict(), removed)
            remove_attributes(self, removed)
        self._require_apart(self._rl_modules.keys())

    def setup(self) -> None:
        """Build the container's own networks, and let modules share layers."""

    def __getitem__(self, module_id: str) -> Any:
        """The module of an id.

        Raises:
            SelectionError: There is none; the closest ids are named.
        """
        if module_id not in self._rl_modules:
            raise SelectionError(f"there is no module {module_id!r}", pattern=str(module_id), known=self._rl_modules)
        return self._rl_modules[module_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rl_modules)

    def __len__(self) -> int:
        return len(self._rl_modules)

    def __contains__(self, module_id: object) -> bool:
        return module_id in self._rl_modules

    def add_rl_module(self, module_id: str, module: Any) -> None:
        """Take in one more module or policy. What `setup` shared stays with the modules that it was given.

        Torch's own `add_module` is for the container's networks.

        Raises:
            IdError: The id is taken, or cannot name a directory.
            SpecError: It is the name of a network of the container.
        """
        if module_id in self._rl_modules:
            raise IdError(f"there is a module {module_id!r}", expected="a new id", found=listed(self._rl_modules))
        validate_ids([*self._rl_modules, module_id])
        self._require_apart({module_id})
        self._rl_modules[module_id] = module
        self._is_as_set_up = False
        self._networks.append(network_of(module))

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Torch's own, for networks of the container.

        Raises:
            SpecError: It is an RL module, which RLlib's method of this name would take in under its id.
        """
        if isinstance(module, Restorable):
            raise SpecError(
                f"add_module({name!r}) makes an RL module a network of the container itself",
                expected="a plain torch module",
                found=type(module).__qualname__,
                fix=f"add_rl_module({name!r}, module)",
            )
        super().add_module(name, module)

    def remove_rl_module(self, module_id: str) -> Any:
        """Let go of a module; gives it. Layers that others share with it stay theirs.

        Raises:
            SelectionError: There is none.
        """
        module = self[module_id]
        del self._rl_modules[module_id]
        self._networks = nn.ModuleList(map(network_of, self._rl_modules.values()))
        return module

    def rename_rl_module(self, old: str, new: str) -> None:
        """Give a module another id; it keeps its place.

        Raises:
            SelectionError: There is no module of the old id.
            IdError: The new id is taken, or cannot name a directory.
        """
        self[old]
        renamed = {new if name == old else name: module for name, module in self._rl_modules.items()}
        if new != old and new in self._rl_modules:
            raise IdError(f"there is a module {new!r}", expected="a new id", found=listed(self._rl_modules))
        validate_ids(renamed)
        self._require_apart({new})
        self._rl_modules = renamed
        self._is_as_set_up = False

    def _require_apart(self, ids: AbstractSet[str]) -> None:
        if doubled := ids & self.get_own_state().keys():
            raise SpecError(
                f"{listed(doubled)} names a module and a network", expected="different names", found="one name"
            )

    def keys(self) -> KeysView[str]:
        """The ids."""
        return self._rl_modules.keys()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._rl_modules.values()

    def items(self) -> ItemsView[str, Any]:
        """Ids and modules."""
        return self._rl_modules.items()

    def forward_inference(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Id -> outputs of its module for the batch under that id; ids that the batch lacks are left out."""
        return {name: network_of(self[name]).forward_inference(part) for name, part in batch.items()}

    def forward_exploration(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """As `forward_inference`, with exploration."""
        return {name: network_of(self[name]).forward_exploration(part) for name, part in batch.items()}

    def forward_train(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """As `forward_inference`, for losses."""
        return {name: network_of(self[name]).forward_train(part) for name, part in batch.items()}

    def get_spec(self) -> Spec:
        """See `Restorable`."""
        options = {"inference_only": self.inference_only} if isinstance(self, InferenceOnlyAPI) else {}
        return Spec(class_path_of(type(self)), dict(self.model_config), options)

    def get_own_state(self) -> State:
        """The container's own networks."""
        return module_state.state_of(self._own_state_dict(), self._aliases)

    def get_own_roles(self) -> Mapping[str, Role]:
        """The role of each own entry. What is called training is first proven to be needless.

        Raises:
            SpecError: The container acts differently without its non-inference attributes; the guilty ones are named.
            TieError: Its `setup` would share more layers among the modules that it has by now than they share.
        """
        if not (self._is_as_set_up or type(self).setup is MultiRLModule.setup or is_trial() or is_glance()):
            require_same_sharing(self._parts(), self)
        removed = self.removable_attributes()
        roles = module_state.roles_of(self._own_state_dict(), self._aliases, removed)
        if "training" in roles.values() and not is_trial() and not is_glance():
            self._prove(removed)
        return roles

    def _prove(self, removed: tuple[str, ...]) -> None:
        proof = (removed, module_state.versions_of(self.state_dict(keep_vars=True)))
        if proof != self._proof:
            require_needless(self._parts(), self)
            self._proof = proof

    def set_own_state(self, state: State) -> None:
        """See `Restorable`."""
        module_state.load_state(self, self._own_state_dict(), state)

    def check_own_state(self, state: State) -> None:
        """See `Restorable`."""
        module_state.check_ties(self._own_state_dict(), state, self._aliases)

    def _own_state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in self.state_dict().items() if not name.startswith(_NETWORKS)}

    def _parts(self) -> Parts:
        config, trust = self.model_config, self.trust
        return Parts(kind=type(self), modules=self._rl_modules, model_config=config, trust=trust)

    def removable_attributes(self) -> tuple[str, ...]:
        """Paths of the container's own attributes that acting does not need."""
        own = self.get_non_inference_attributes() if isinstance(self, InferenceOnlyAPI) else None
        return attribute_list(own) or ()

    def get_checkpointable_components(self) -> list[tuple[str, Restorable]]:
        """The modules."""
        return list(self._rl_modules.items())

    def tie_components(self, ties: Sequence[Sequence[tuple[str, str]]]) -> None:
        """Let modules share parameters again."""
        tie(self, ties)

    def own_tensor(self, key: str) -> torch.Tensor:
        """See `HoldsTensors`."""
        return module_state.own_tensor(self, key)

    def share_tensor(self, key: str, tensor: torch.Tensor) -> None:
        """See `HoldsTensors`."""
        module_state.share_tensor(self, key, tensor)

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """See `Restorable`."""
        is_slim = bool(spec.options.get("inference_only", False))
        with drawing_nothing(device):
            return built_on(
                device, lambda: cls(children, model_config=spec.config, inference_only=is_slim, trust=trust)
            )


@dataclass(frozen=True)
class MultiRLModuleSpec:
    """What a container holds and how to build it. The names are RLlib's.

    Attributes:
        multi_rl_module_class: The container's class, or its dotted path.
        rl_module_specs: Id -> spec of a module, or of a policy.
        inference_only: Build every module, and the container, slim or whole; None leaves it to each spec.
        model_config: Plain data for the container.
    """

    multi_rl_module_class: str | type = MultiRLModule
    rl_module_specs: Mapping[str, Any] = field(default_factory=dict)
    inference_only: bool | None = None
    model_config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the ids."""
        validate_ids(self.rl_module_specs)

    def build(self, *, device: str = "cpu", trust: tuple[str, ...] = ()) -> MultiRLModule:
        """A container of fresh modules on a device.

        Raises:
            UntrustedClassError: A class that is not trusted.
            SpecError: A spec that cannot be built.
        """
        kind: Any = self.multi_rl_module_class
        if isinstance(kind, str):
            kind = resolve_class(kind, MultiRLModule, trust=trust)
        children = {
            name: self._spec(spec).build(device=device, trust=trust) for name, spec in self.rl_module_specs.items()
        }
        container: MultiRLModule = built_on(
            device,
            lambda: kind(
                children, model_config=self.model_config, inference_only=bool(self.inference_only), trust=trust
            ),
        )
        return container

    def _spec(self, spec: Any) -> Any:
        return spec if self.inference_only is None else spec.with_inference_only(inference_only=self.inference_only)
