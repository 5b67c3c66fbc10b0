"""A policy's graph made fit for export: a frozen copy on the CPU, proven to be a pure function of its inputs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import torch
from torch import nn

from rlpipe.errors import RlpipeError, UnsupportedModuleError, listed
from rlpipe.exporters.attributes import plain_attributes, require_attributes_unchanged
from rlpipe.exporters.location import Location
from rlpipe.exporters.signature import Signature
from rlpipe.exporters.target import Arrays

Tensors: TypeAlias = tuple[torch.Tensor, ...]

_COARSE = 1e-3
"""Beyond any rounding between batch sizes, below any real influence of one row on another."""


def freeze(module: nn.Module, signature: Signature, sample: Arrays) -> nn.Module:
    """A copy of a graph in eval mode, on the CPU and without gradients, after proof that it is a pure function.

    Args:
        module: Takes one tensor per input of the signature, gives one per output.
        signature: What it takes and gives.
        sample: Input name -> observations, at least 7, better 64.

    Raises:
        UnsupportedModuleError: It stays in training mode, holds a tensor on another device, answers differently twice,
            changes its own tensors or attributes, or gives other shapes or dtypes than the signature.
    """
    frozen = _frozen_copy(module)
    before, fresh = {name: tensor.clone() for name, tensor in _tensors(frozen)}, plain_attributes(frozen)
    # Choices drawn at random can agree by chance, but not on so many observations.
    *_, once = (_run_first(frozen, signature, sample, batch) for batch in (2, 1, 64))
    settled = plain_attributes(frozen)
    again = _run_first(frozen, signature, sample, 64)
    _require_unchanged(before, dict(_tensors(frozen)))
    require_attributes_unchanged(fresh, settled, plain_attributes(frozen))
    if not all(map(_same, once, again)):
        raise UnsupportedModuleError(
            "the policy answers the same observations differently twice",
            expected="a deterministic inference forward",
            found="random numbers, dropout or hidden state in the forward",
            fix="return the distribution's mode in forward_inference, and keep counters out of it",
        )
    return frozen


def require_independent_rows(module: nn.Module, signature: Signature, sample: Arrays) -> None:
    """Check that a frozen graph answers the same in batches of 2 and 7.

    Raises:
        UnsupportedModuleError: A row depends on the others.
    """
    runs = zip(signature.outputs, *(_run_first(module, signature, sample, batch) for batch in (2, 7)), strict=True)
    for spec, few, many in runs:
        if few.is_floating_point() and not torch.allclose(few, many[:2], atol=_COARSE, rtol=_COARSE, equal_nan=True):
            raise UnsupportedModuleError(
                f"{spec.name} depends on the other observations of its batch",
                expected="each row stands for itself",
                found=f"a difference of {float((few - many[:2]).abs().max()):.2e} between batches of 2 and 7",
                fix="use running statistics instead of those of the batch",
            )


def _run_first(module: nn.Module, signature: Signature, sample: Arrays, batch: int) -> Tensors:
    return run(module, signature, {name: rows[:batch] for name, rows in sample.items()})


def run(module: nn.Module, signature: Signature, arrays: Arrays) -> Tensors:
    """The graph's outputs for a batch, checked against the signature.

    Raises:
        UnsupportedModuleError: The graph fails, or gives other shapes or dtypes.
    """
    inputs = inputs_of(signature, arrays)
    with Location(module) as location, torch.inference_mode():
        try:
            outputs = module(*inputs)
        except RlpipeError as error:
            raise UnsupportedModuleError(
                error.subject, expected=error.expected, found=error.found, fix=error.fix
            ) from error
        except Exception as error:
            raise UnsupportedModuleError(
                f"{location.of(error)} fails for a batch of {len(inputs[0])}",
                expected="any batch size, on the CPU",
                found=first_line(error),
                fix="write the batch size as x.shape[0], or reshape with flatten(1) and -1",
            ) from error
    outputs = (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
    _require_fit(signature, outputs, len(inputs[0]))
    return outputs


def _require_fit(signature: Signature, outputs: Tensors, batch: int) -> None:
    expected = [(spec.dtype, (batch, *spec.shape)) for spec in signature.outputs]
    found = [(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for tensor in outputs]
    if found == expected:
        return
    names = [spec.name for spec in signature.outputs]
    if len(found) == len(expected):
        names = [name for name, one, other in zip(names, found, expected, strict=True) if one != other]
    is_memory = all(spec.kind == "next_state" for spec in signature.outputs if spec.name in names)
    raise UnsupportedModuleError(
        "the policy gives back another memory than it takes"
        if is_memory
        else "the policy's actions do not fit its action space",
        expected=_described(expected),
        found=_described(found),
        fix=f"look at {listed(names)}: state_out has the shapes and dtypes of get_initial_state(), behind the batch"
        if is_memory
        else "check the action stages and the module's output size; the first dimension has to be the batch",
    )


def inputs_of(signature: Signature, arrays: Arrays) -> Tensors:
    """Tensors of their own, in the order of the signature."""
    return tuple(torch.tensor(arrays[spec.name]) for spec in signature.inputs)


def first_line(error: BaseException) -> str:
    """What an error says, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _frozen_copy(module: nn.Module) -> nn.Module:
    frozen = copy.deepcopy(module).to("cpu").eval().requires_grad_(requires_grad=False)
    training = [name or "the graph" for name, part in frozen.named_modules() if part.training]
    if training:
        raise UnsupportedModuleError(
            "parts of the policy stay in training mode",
            expected="eval() puts every part into eval mode",
            found=listed(training),
            fix="remove the override of train() or eval()",
        )
    elsewhere = [f"{name} on {tensor.device}" for name, tensor in _tensors(frozen) if tensor.device.type != "cpu"]
    if elsewhere:
        raise UnsupportedModuleError(
            "tensors of the policy are bound to a device",
            expected="parameters and buffers, which move with the module",
            found=listed(elsewhere),
            fix="register them: self.register_buffer(name, tensor)",
        )
    return frozen


def _tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, buffers and plain attributes, each with its dotted name."""
    for path, part in module.named_modules():
        held = {**vars(part), **part._parameters, **part._buffers}  # noqa: SLF001 - nn.Module offers no view with both
        for name, value in held.items():
            if isinstance(value, torch.Tensor):
                yield f"{path}.{name}" if path else name, value


def _require_unchanged(before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]) -> None:
    changed = [name for name in after if name not in before or not _same(before[name], after[name])]
    if changed:
        raise UnsupportedModuleError(
            "the policy changes its own tensors when it acts",
            expected="statistics that are frozen in eval mode",
            found=listed(changed),
            fix="update them only under `if self.training:`, or in forward_train",
        )


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.is_floating_point():
        # Neither numpy nor every comparison has the small types.
        one, other = one.double(), other.double()
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def _described(tensors: list[tuple[str, tuple[int, ...]]]) -> str:
    return "; ".join(f"{dtype} {list(shape)}" for dtype, shape in tensors)
