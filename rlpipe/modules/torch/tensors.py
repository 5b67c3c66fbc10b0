"""Tensors as arrays and back, bit for bit, bfloat16 and float8 included; on the CPU without a copy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from rlpipe.errors import SpecError, UnsupportedStateError, listed
from rlpipe.snapshot.dtypes import DTYPES
from rlpipe.snapshot.state import Array, equal

_RAW = {1: torch.uint8, 2: torch.int16}

_COPIES: WeakValueDictionary[Any, Array] = WeakValueDictionary()
"""Device memory -> its copy, so that a tie between components on a device is a tie between their copies."""


class Arrays:
    """Makes arrays of tensors; tensors that are one in memory become one array.

    A CPU tensor becomes a read-only view, one of another device a copy, one without data (meta) zeros without memory.
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
        if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and tensor.numel():
            groups.setdefault(memory(tensor), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def require_initialised(module: nn.Module) -> None:
    """Check that no parameter or buffer still waits for its shape.

    Raises:
        SpecError: Some do; they are named.
    """
    tensors = (*module.named_parameters(), *module.named_buffers())
    if lazy := [name for name, tensor in tensors if is_lazy(tensor)]:
        raise SpecError(
            f"{type(module).__qualname__} has parameters without a shape",
            expected="a module that is complete after setup",
            found=listed(lazy),
            fix="give the layers their sizes, or run them once on zeros at the end of setup",
        )


def _plain(tensor: torch.Tensor, key: str) -> torch.Tensor:
    name = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout is not torch.strided or tensor.is_quantized or name not in DTYPES:
        raise UnsupportedStateError(
            f"{key} is no plain array",
            expected=f"a dense tensor of {', '.join(DTYPES)}",
            found=f"{tensor.layout} {tensor.dtype}",
            fix="keep it out of the state dict, or keep it as a dense tensor",
        )
    return tensor.detach().resolve_conj().resolve_neg()


def _array(tensor: torch.Tensor, address: Any) -> Array:
    dtype = DTYPES[str(tensor.dtype).removeprefix("torch.")]
    if tensor.is_meta:
        return np.broadcast_to(np.zeros((), dtype), tuple(tensor.shape))
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
    dtype = DTYPES.get(str(tensor.dtype).removeprefix("torch."))
    is_plain = tensor.layout is torch.strided and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    if dtype is None or tensor.device.type != "cpu" or not is_plain or tensor.is_inference():
        return None
    return _over(tensor.detach(), dtype)


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
