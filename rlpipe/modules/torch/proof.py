"""Proof that what is saved of a module acts as the module does: it is built again, given the state, and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from rlpipe.errors import SpecError, listed
from rlpipe.modules.torch.module_state import roles_of
from rlpipe.modules.torch.probing import act, place_of, probe_of
from rlpipe.modules.torch.slimming import clean, view_of
from rlpipe.modules.torch.trial import difference, first_line, logger, trial, tried
from rlpipe.snapshot.state import entries

if TYPE_CHECKING:
    from rlpipe.modules.rl_module import RLModuleSpec
    from rlpipe.modules.torch.rl_module import RLModule

_OF_TORCH = frozenset(vars(nn.Module()))


def require_restorable(module: RLModule, attributes: tuple[str, ...]) -> None:
    """Check that a module of the same spec with the same state acts the same, and so does one without the attributes.

    Args:
        module: Any module with numbers that acts.
        attributes: Paths of its non-inference attributes.

    Raises:
        SpecError: A restored module would be another one, or could not act; what is to blame is named.
    """
    with trial(place_of(module)):
        again = _with_state_of(module, module.get_module_spec())
        outputs = tried(lambda: _acted(module, module), where=name_of(module))
        if outputs is None:
            return
        answers, problem = _compared(module, again, outputs, exact=_layouts(module) == _layouts(again))
        if problem and _repeats(module, outputs):
            raise _unsaved(module, again, problem)
        if problem is None and attributes and not module.inference_only:
            # Bit for bit only among what was built alike: rounding depends on the layout in memory.
            _require_needless(again, attributes, answers)


def require_needless_in(spec: RLModuleSpec, attributes_of: Any, *, trust: tuple[str, ...]) -> None:
    """Check that a module of a slim spec acts as a full one would.

    Args:
        spec: What is about to be built, on torch's default device; on "meta" nothing can be checked.
        attributes_of: Module -> paths of its non-inference attributes.
        trust: See `RLModuleSpec.build`.

    Raises:
        SpecError: It does not; the attributes that it needs are named.
    """
    device = torch.get_default_device()
    if device.type == "meta":
        return
    with trial(device):
        full = spec.with_inference_only(inference_only=False).build(device=str(device), trust=trust)
        attributes = attributes_of(full)
        outputs = tried(lambda: _acted(full, full), where=name_of(full)) if attributes else None
        if outputs is not None:
            _require_needless(full, attributes, outputs)


def name_of(module: nn.Module) -> str:
    """How errors name a module."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _acted(module: RLModule, prober: RLModule) -> Mapping[str, Any]:
    return act(view_of(module), probe_of(prober))


def _repeats(module: RLModule, outputs: Mapping[str, Any]) -> bool:
    """Whether the module answers the same again; of one that does not, nothing can be said."""
    if difference(_acted(module, module), outputs) is None:
        return True
    logger.warning("%s answers the same observations differently twice, and could not be checked", name_of(module))
    return False


def _with_state_of(module: RLModule, spec: RLModuleSpec) -> RLModule:
    again = spec.build(device=str(place_of(module)), trust=module.trust)
    found, built = _kinds(module), _kinds(again)
    names = [name for name in sorted(found.keys() | built.keys()) if found.get(name) != built.get(name)]
    if names:
        texts = [f"{name}: {found.get(name, 'nothing')}, built as {built.get(name, 'nothing')}" for name in names]
        raise SpecError(
            f"{name_of(module)} is no longer what its spec builds, and could not be restored",
            expected="the tensors of setup, in their dtypes and shapes",
            found=listed(texts),
            fix="make layers and choose dtypes in setup, by model_config if they vary, and not after building",
        )
    again.set_own_state(module.get_own_state())
    return again


def _kinds(module: nn.Module) -> dict[str, str]:
    return {
        clean(name): f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
        if isinstance(value, torch.Tensor)
        else "no tensor"
        for name, value in module.state_dict().items()
    }


def _layouts(module: nn.Module) -> list[tuple[int, ...]]:
    return [value.stride() for value in module.state_dict().values() if isinstance(value, torch.Tensor)]


def _compared(
    module: RLModule, other: RLModule, outputs: Mapping[str, Any], *, exact: bool
) -> tuple[Mapping[str, Any], str | None]:
    """What another module puts out, and in words how that is not the same."""
    try:
        answers = _acted(other, module)
        return answers, difference(answers, outputs, exact=exact)
    except Exception as error:  # noqa: BLE001 - a user's forward may fail in any way
        return {}, first_line(error)


def _unsaved(module: RLModule, again: RLModule, problem: str) -> SpecError:
    built = dict(stray_tensors(again))
    stray = [
        name
        for name, value in stray_tensors(module)
        if name not in built or difference({name: value}, {name: built[name]}) is not None
    ]
    return SpecError(
        f"{name_of(module)} would act differently when it is restored",
        expected="all that it has learnt in parameters, buffers or get_extra_state",
        found=f"{listed(stray)} in no state dict; {problem}" if stray else f"built again from its state: {problem}",
        fix="use self.register_buffer(name, tensor) or nn.Parameter" if stray else "keep in it what forward reads",
    )


def stray_tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that a module holds outside its state dict, each with its dotted name."""
    saved = {id(value) for value in module.state_dict(keep_vars=True).values()}
    for path, part in module.named_modules():
        held = {name: value for name, value in vars(part).items() if name not in _OF_TORCH} | dict(part._buffers)
        for name, value in held.items():
            dotted = clean(f"{path}.{name}" if path else name)
            yield from ((place, tensor) for place, tensor in _tensors(dotted, value) if id(tensor) not in saved)


def _tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (list, tuple, dict)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        yield from ((f"{name}[{key!r}]", item) for key, item in items if isinstance(item, torch.Tensor))


def _require_needless(full: RLModule, attributes: tuple[str, ...], outputs: Mapping[str, Any]) -> None:
    problem = _slim_problem(full, attributes, outputs)
    if problem is None or not _repeats(full, outputs):
        return
    guilty = [path for path in attributes if _slim_problem(full, (path,), outputs)] or list(attributes)
    raise unneeded(name_of(full), guilty, problem)


def _slim_problem(full: RLModule, attributes: tuple[str, ...], outputs: Mapping[str, Any]) -> str | None:
    spec = replace(full.get_module_spec(), inference_only=True, non_inference_attributes=attributes)
    try:
        slim = spec.build(device=str(place_of(full)), trust=full.trust)
        roles = roles_of(full.state_dict(), {}, attributes)
        odd = entries(slim.get_own_state()).keys() ^ {key for key, role in roles.items() if role == "inference"}
        if odd:
            return f"a slim module has, or lacks, {listed(sorted(odd))}"
        slim.set_own_state(full.get_own_state())
    except Exception as error:  # noqa: BLE001 - a user's setup may fail in any way
        return first_line(error)
    return _compared(full, slim, outputs, exact=True)[1]


def unneeded(where: str, guilty: list[str], problem: str) -> SpecError:
    """The error of a list that prunes too much."""
    return SpecError(
        f"{where} acts differently without its non-inference attributes",
        expected="attributes that only training needs",
        found=f"inference needs {listed(guilty)}: {problem}",
        fix=f"take {listed(guilty)} out of non_inference_attributes",
    )
