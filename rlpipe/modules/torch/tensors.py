"""Tensors as arrays and back, bit for bit, bfloat16 and float8 included; on the CPU without a copy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from rlpipe.errors import SpecError, UnsupportedStateError, listed
from rlpipe.snapshot.dtypes import DTYPES
from rlpipe.snapshot.numberless import numberless
from rlpipe.snapshot.state import Array, equal

_RAW = {1: torch.uint8, 2: torch.int16}

_COPIES: WeakValueDictionary[Any, Array] = WeakValueDictionary()
"""Device memory -> its copy, so that a tie between components on a device is a tie between their copies."""


class Arrays:
    """Makes arrays of tensors; tensors that are one in memory become one array.

    A CPU tensor becomes a read-only view, one of another device a copy, one without data (meta) a `numberless` array.
    """

    def __init__(self) -> None:
        self._made: dict[Any, Array] = {}

    def of(self, tensor: torch.Tensor, key: str) -> Array:
        """The array of a tensor.

        Raises:
            UnsupportedStateError: A tensor that is no plain array, or of a dtype without a name on disk.
        """
        tensor = _plain(tensor, key)
        # Two empty tensors share no element, whatever their address says.
        address = memory(tensor) if tensor.numel() else object()
        if address not in self._made:
            self._made[address] = _array(tensor, address)
        return self._made[address]


def memory(tensor: torch.Tensor) -> Any:
    """A value that is equal for two tensors that are one: same memory, dtype, shape and strides.

    A meta tensor has no memory; there it is the storage object that counts.
    """
    storage = tensor.untyped_storage()
    place = storage._cdata if tensor.is_meta else tensor.data_ptr()
    return (tensor.device, place, tensor.storage_offset(), tensor.dtype, tensor.shape, tensor.stride())


def ties(tensors: Iterable[tuple[str, Any]]) -> list[list[str]]:
    """Groups of names whose tensors are one, with at least one element each."""
    groups: dict[Any, list[str]] = {}
    for name, tensor in tensors:
        if isinstance(tensor, torch.Tensor) and not _oddity(tensor) and tensor.numel():
            groups.setdefault(memory(tensor), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def require_initialised(module: nn.Module, *, besides: str = "-") -> None:
    """Check that no parameter or buffer still waits for its shape, or for its numbers.

    Args:
        module: What was just built.
        besides: How the names of what was built before begin.

    Raises:
        SpecError: Some do; they are named.
    """
    everything = (*module.named_parameters(), *module.named_buffers())
    tensors = [(name, tensor) for name, tensor in everything if not name.startswith(besides)]
    if lazy := [name for name, tensor in tensors if is_lazy(tensor)]:
        raise SpecError(
            f"{type(module).__qualname__} has parameters without a shape",
            expected="a module that is complete after setup",
            found=listed(lazy),
            fix="give the layers their sizes, or run them once on zeros at the end of setup",
        )
    if not torch.empty(0).is_meta and (bare := [name for name, tensor in tensors if tensor.is_meta]):
        raise SpecError(
            f"{type(module).__qualname__} has tensors without numbers",
            expected="a module that is complete after setup",
            found=f'on the device "meta": {listed(bare)}',
            fix="make them on the device that is the default while setup runs",
        )


def _plain(tensor: torch.Tensor, key: str) -> torch.Tensor:
    if found := _oddity(tensor):
        raise UnsupportedStateError(
            f"{key} is no plain array",
            expected=f"a dense tensor of {', '.join(DTYPES)}",
            found=found,
            fix="keep it out of the state dict, or keep it as a dense tensor",
        )
    return tensor.detach().resolve_conj().resolve_neg()


def _oddity(tensor: torch.Tensor) -> str:
    """What a tensor is, if it is anything but numbers that lie in memory of its own; else ""."""
    kind = type(tensor)
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        # DTensor, quantised weights of torchao: only the class knows where its numbers are.
        return f"{kind.__module__}.{kind.__qualname__}, a tensor made of others"
    if tensor.is_nested or tensor.layout is not torch.strided or _name(tensor.dtype) not in DTYPES:
        return f"{'nested ' * tensor.is_nested}{tensor.layout} {tensor.dtype}"
    if not tensor.is_meta and tensor.untyped_storage().nbytes() < _reach(tensor):
        # As sharding leaves parameters behind: to read there is to read another one's memory.
        return "a tensor whose memory was taken away"
    return ""


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _reach(tensor: torch.Tensor) -> int:
    """Bytes of its storage up to the end of the last element."""
    count = tensor.numel()
    if count and not tensor.is_contiguous():
        count = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.storage_offset() + count) * tensor.element_size() if count else 0


def _array(tensor: torch.Tensor, address: Any) -> Array:
    dtype = DTYPES[_name(tensor.dtype)]
    if tensor.is_meta:
        return numberless(dtype, tuple(tensor.shape))
    host = tensor.cpu()
    array = _over(host, dtype)
    if tensor.device.type != "cpu":
        array = _one_copy(np.array(array), address)
    array.flags.writeable = False
    return array


def _over(host: torch.Tensor, dtype: np.dtype[Any]) -> Array:
    """The array over a CPU tensor's memory."""
    array: Array = host.numpy() if dtype.isbuiltin == 1 else host.view(_RAW[dtype.itemsize]).numpy().view(dtype)
    return array


def _one_copy(array: Array, address: Any) -> Array:
    """The copy that another component made of the same device memory, if it lives and is still right; else this one."""
    earlier = _COPIES.get(address)
    if earlier is not None and equal(earlier, array):
        return earlier
    _COPIES[address] = array
    return array


def memory_of(tensor: torch.Tensor) -> Array | None:
    """A writable array over the tensor's memory; None where it cannot be written to from outside of torch."""
    is_shut = tensor.device.type != "cpu" or tensor.is_inference()
    if is_shut or _oddity(tensor) or tensor.is_conj() or tensor.is_neg():
        return None
    return _over(tensor.detach(), DTYPES[_name(tensor.dtype)])


def is_written_apart(tensor: torch.Tensor) -> bool:
    """Whether torch refuses to copy into a tensor as it is: one of inference mode, or one that repeats an element."""
    return tensor.is_inference() or any(_repeated(tensor))


def write(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Copy into a tensor that is written apart, each element once."""
    once = tuple(slice(0, 1) if is_repeated else slice(None) for is_repeated in _repeated(tensor))
    with torch.inference_mode(tensor.is_inference()):
        tensor.detach()[once].copy_(value[once])


def repeats_as(array: Any, tensor: torch.Tensor) -> bool:
    """Whether an array has one number wherever the tensor repeats an element."""
    repeated = _repeated(tensor)
    if not any(repeated) or tensor.is_meta:
        return True
    once = tuple(slice(0, 1) if is_repeated else slice(None) for is_repeated in repeated)
    return equal(np.broadcast_to(array[once], array.shape), array)


def _repeated(tensor: torch.Tensor) -> list[bool]:
    return [size > 1 and not stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]


def is_over(array: Any, tensor: torch.Tensor) -> bool:
    """Whether an array is the tensor's own memory, element for element."""
    if not isinstance(array, np.ndarray) or tensor.device.type != "cpu" or not array.size:
        return False
    place = array.__array_interface__
    strides = tuple(stride * tensor.element_size() for stride in tensor.stride())
    return place["data"][0] == tensor.data_ptr() and (array.shape, array.strides) == (tuple(tensor.shape), strides)


def tensor_of(array: Array) -> torch.Tensor:
    """A CPU tensor over the array's memory. It may be read-only memory: copy it, never write to it."""
    array = np.asarray(array)
    extended = array.dtype.isbuiltin == 2
    raw = array.view(f"u{array.dtype.itemsize}" if array.dtype.itemsize == 1 else "i2") if extended else array
    if any(stride < 0 for stride in raw.strides):
        raw = np.array(raw)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensor = torch.from_numpy(raw)
    return tensor.view(getattr(torch, array.dtype.name)) if extended else tensor
