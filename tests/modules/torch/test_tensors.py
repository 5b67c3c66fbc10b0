from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.errors import UnsupportedStateError
from rlpipe.modules.torch.tensors import Arrays, _one_copy, is_over, memory_of, tensor_of, ties
from rlpipe.snapshot.dtypes import DTYPES

BOTH = [name for name in DTYPES if hasattr(torch, name)]


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_every_dtype_goes_there_and_back_bit_for_bit(name: str, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape)) * torch.empty((), dtype=getattr(torch, name)).itemsize
    raw = torch.arange(size, dtype=torch.uint8) % 2
    tensor = raw.view(getattr(torch, name)).reshape(shape) if size else torch.empty(shape, dtype=getattr(torch, name))
    array = Arrays().of(tensor, "key")
    assert array.dtype == DTYPES[name]
    assert array.shape == shape
    assert array.tobytes() == bytes(raw.numpy())
    back = tensor_of(array)
    assert back.dtype == tensor.dtype
    assert back.shape == tensor.shape


def test_a_tensor_on_the_cpu_is_viewed() -> None:
    tensor = torch.zeros(3, dtype=torch.bfloat16)
    array = Arrays().of(tensor, "key")
    tensor.fill_(1)
    assert (array.astype(np.float32) == 1).all()
    assert not array.flags.writeable


def test_tensors_that_are_one_become_one_array() -> None:
    arrays = Arrays()
    tensor = torch.arange(6.0).reshape(2, 3)
    assert arrays.of(tensor, "a") is arrays.of(tensor.detach(), "b")
    assert arrays.of(tensor, "a") is not arrays.of(tensor.T, "c")
    assert arrays.of(torch.empty(0), "d") is not arrays.of(torch.empty(0), "e")


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_ties_are_found_by_storage(device: str) -> None:
    tensor, other = torch.ones(2, 3, device=device), torch.ones(2, 3, device=device)
    found = ties(
        [("a", tensor), ("b", tensor.detach()), ("c", other), ("d", tensor[0]), ("e", 3), ("f", torch.empty(0))]
    )
    assert found == [["a", "b"]]


def test_what_is_no_plain_array_is_refused_by_its_name() -> None:
    with pytest.raises(UnsupportedStateError, match=r"layer\.weight"):
        Arrays().of(torch.eye(2).to_sparse(), "layer.weight")


def test_arrays_of_any_strides_become_tensors() -> None:
    array = np.arange(6.0).reshape(2, 3)[:, ::-1]
    assert torch.equal(tensor_of(array), torch.tensor([[2.0, 1, 0], [5, 4, 3]], dtype=torch.float64))


def test_copies_of_one_device_memory_are_one_while_they_are_right() -> None:
    first = _one_copy(np.arange(3.0), "place")
    assert _one_copy(np.arange(3.0), "place") is first
    assert _one_copy(np.arange(3.0), "elsewhere") is not first
    changed = _one_copy(np.ones(3), "place")
    assert changed is not first
    assert (changed == 1).all()


@pytest.mark.parametrize("name", BOTH)
def test_memory_is_the_tensors_own_and_can_be_written(name: str) -> None:
    tensor = torch.zeros((2, 3), dtype=getattr(torch, name))
    array = memory_of(tensor)
    assert array is not None
    assert (array.dtype, array.shape) == (DTYPES[name], (2, 3))
    array.view(np.uint8)[...] = 1
    assert bytes(tensor.view(torch.uint8).numpy()) == b"\1" * array.nbytes
    assert is_over(array, tensor)
    assert is_over(memory_of(tensor.T), tensor.T)
    assert not is_over(array, tensor.clone())
    assert not is_over(array, tensor.T)
    assert not is_over(array[:1], tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(2, device="meta"),
        torch.eye(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.inference_mode()(lambda: torch.ones(2))(),
    ],
)
def test_memory_that_is_not_the_numbers_is_not_given_away(tensor: torch.Tensor) -> None:
    assert memory_of(tensor) is None


class Boxed(torch.Tensor):
    """A tensor made of another one, as DTensor is."""

    @classmethod
    def around(cls, inner: torch.Tensor) -> Boxed:
        boxed: Boxed = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        return boxed

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise AssertionError("its numbers are looked for")


def freed(nbytes: int) -> torch.Tensor:
    tensor = torch.ones(1000)
    tensor.untyped_storage().resize_(nbytes)
    return tensor


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


ODD: dict[str, Any] = {
    "sparse": lambda: torch.eye(2).to_sparse(),
    "sparse rows": lambda: torch.eye(2).to_sparse_csr(),
    "half complex": lambda: torch.zeros(2, dtype=torch.complex32),
    "nested": nested,
    "of others": lambda: Boxed.around(torch.ones(2)),
    "freed": lambda: freed(0),
    "freed in part": lambda: freed(3996),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_plain_array_is_refused_by_its_key_and_never_looked_into(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says of some that they are in beta
        tensor = ODD[kind]()
        with pytest.raises(UnsupportedStateError, match=r"a\.key is no plain array"):
            Arrays().of(tensor, "a.key")
        assert memory_of(tensor) is None
        assert ties([("a", tensor), ("b", tensor)]) == []


def test_a_class_that_only_has_another_name_is_plain() -> None:
    class Named(torch.Tensor):
        """Adds nothing."""

    np.testing.assert_array_equal(Arrays().of(torch.ones(2).as_subclass(Named), "a"), np.ones(2))


def test_a_view_that_ends_where_its_storage_ends_is_whole() -> None:
    tensor = freed(40)[:10]
    assert Arrays().of(tensor[3:], "a").shape == (7,)
    assert Arrays().of(freed(0)[:0], "a").size == 0
