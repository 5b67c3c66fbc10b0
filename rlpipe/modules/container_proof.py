"""Proof that a container of modules acts the same without its own non-inference attributes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from rlpipe.checkpoint.fit import lacking_ties, ties_text
from rlpipe.checkpoint.glance import glancing
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import TieError
from rlpipe.modules.torch.probing import act, place_of, probe_of
from rlpipe.modules.torch.proof import name_of, unneeded
from rlpipe.modules.torch.trial import difference, first_line, trial, tried


def network_of(module: Any) -> Any:
    """The torch module of an RL module or a policy."""
    return module if isinstance(module, nn.Module) else module.module


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a container is made of.

    Attributes:
        kind: Its class.
        modules: Id -> RL module or policy.
        model_config: Plain data for `setup`.
        trust: See `MultiRLModule`.
    """

    kind: Any
    modules: Mapping[str, Any]
    model_config: Mapping[str, Any]
    trust: tuple[str, ...]

    def build(self, *, inference_only: bool) -> Any:
        """Another container of such parts, so that nothing happens to them."""
        modules = {name: _again(module) for name, module in self.modules.items()}
        return self.kind(modules, model_config=self.model_config, inference_only=inference_only, trust=self.trust)

    def acted(self, container: Any, state: Any) -> Mapping[str, Any]:
        """What one of these containers puts out with the numbers of the parts, and with its own state."""
        for name, module in container.items():
            network_of(module).set_own_state(network_of(self.modules[name]).get_own_state())
        # After the modules, since what they share belongs to the container.
        container.set_own_state(state)
        batch = {name: probe_of(network_of(module)) for name, module in self.modules.items()}
        outputs: Any = act(container.eval(), batch)
        return {f"{name}.{key}": value for name, part in outputs.items() for key, value in part.items()}

    def without(self, path: str) -> Parts:
        """The same of a class whose only non-inference attribute is this one."""
        own = {"get_non_inference_attributes": lambda _: [path]}
        return replace(self, kind=type(self.kind.__name__, (self.kind,), own))


def _again(module: Any) -> Any:
    """Another module of the same spec; for a policy, the same policy around it."""
    network = network_of(module)
    made = network.get_module_spec().build(device=str(place_of(network)), trust=network.trust)
    if network is module:
        return made
    policy = copy.copy(module)
    policy.module = made
    return policy


def require_needless(parts: Parts, source: Any = None) -> None:
    """Check that a slim container acts as a full one.

    Args:
        parts: What it is made of; nothing happens to them.
        source: A container whose own state is tried; None for a fresh one, on torch's default device.

    Raises:
        SpecError: It does not; the attributes that it needs are named.
    """
    device = torch.get_default_device() if source is None else place_of(source)
    if "meta" in (device.type, *(place_of(network_of(module)).type for module in parts.modules.values())):
        return
    with trial(device):
        full = parts.build(inference_only=False)
        state = (full if source is None else source).get_own_state()
        outputs = tried(lambda: parts.acted(full, state), where=name_of(full))
        problem = None if outputs is None else _slim_problem(parts, state, outputs)
        if outputs is None or problem is None or difference(parts.acted(full, state), outputs) is not None:
            return
        attributes = full.removable_attributes()
        guilty = [path for path in attributes if _slim_problem(parts.without(path), state, outputs)]
        raise unneeded(name_of(full), guilty or list(attributes), problem)


def require_same_sharing(parts: Parts, container: Any) -> None:
    """Check that a container that was changed after its `setup` would not be built with more ties than it has.

    Args:
        parts: What it is made of by now; nothing happens to them.
        container: It.

    Raises:
        TieError: It would, so that a restore would give one value to arrays that have several.
    """
    with trial(place_of(container)), glancing():
        again = parts.build(inference_only=container.inference_only)
        extra = lacking_ties(snapshot_of(container), snapshot_of(again))
    if extra:
        raise TieError(
            f"{name_of(container)} would be built with layers shared that are not",
            expected=f"what its setup shares: {ties_text(extra)}",
            found="separate layers, in modules that were added or renamed afterwards",
            fix="let them share these layers too, or add modules of another kind",
        )


def _slim_problem(parts: Parts, state: Any, outputs: Mapping[str, Any]) -> str | None:
    try:
        return difference(parts.acted(parts.build(inference_only=True), state), outputs)
    except Exception as error:  # noqa: BLE001 - a user's forward may fail in any way without its attribute
        return first_line(error)
