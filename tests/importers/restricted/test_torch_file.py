"""What torch.save wrote is read without torch as torch.load gives it, and nothing more than that."""

import io
import pickle
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.errors import ForeignFormatError, RlpipeError, UnsafePayloadError
from rlpipe.importers.restricted.torch_file import read_torch

FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
DTYPES = (
    *("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"),
    *("complex64", "complex128", "bfloat16"),
)


def saved(value: Any, *, zipped: bool = True) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, _use_new_zipfile_serialization=zipped)
    return stream.getvalue()


def read(data: bytes) -> Any:
    return read_torch(data, subject="it")


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


@FORMATS
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_back_bit_for_bit(zipped: bool, name: str) -> None:
    tensor = (torch.arange(12).reshape(3, 4) - 3).to(getattr(torch, name))
    found = read(saved({"x": tensor}, zipped=zipped))["x"]
    assert found.dtype.name == name
    assert found.tobytes() == bits(tensor)


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_of_newer_torch_come_back(name: str) -> None:
    tensor = torch.arange(6).to(torch.float32).to(getattr(torch, name))
    found = read(saved(tensor))
    assert found.dtype.name == name
    assert found.tobytes() == bits(tensor)


@FORMATS
def test_views_come_back_with_their_shapes_and_share_memory(zipped: bool) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    views = {"all": base, "turned": base.t(), "part": base[1:3, ::2], "row": base[2], "one": base[3, 5]}
    views["none"] = base[:0]
    found = read(saved(views, zipped=zipped))
    for name, view in views.items():
        np.testing.assert_array_equal(found[name], view.numpy(), strict=True)
    assert np.shares_memory(found["all"], found["turned"])


@FORMATS
def test_state_dicts_and_optimizers_come_back(zipped: bool) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    found = read(saved(module.state_dict(), zipped=zipped))
    assert list(found) == list(module.state_dict())
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(found[name], tensor.numpy(), strict=True)
    state = read(saved(optimizer.state_dict(), zipped=zipped))
    assert state["param_groups"][0]["betas"] == (0.9, 0.999)
    np.testing.assert_array_equal(state["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"].numpy())


@FORMATS
def test_tensors_of_a_gpu_are_read_without_one(zipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = torch.serialization._package_registry
    monkeypatch.setattr(torch.serialization, "_package_registry", [*registry])
    torch.serialization.register_package(0, lambda _: "cuda:3", lambda *_: None)
    data = saved({"x": torch.arange(3.0)}, zipped=zipped)
    assert b"cuda:3" in data
    np.testing.assert_array_equal(read(data)["x"], np.arange(3, dtype=np.float32), strict=True)


def test_the_other_byte_order_is_turned() -> None:
    values = np.arange(5, dtype=np.float32)
    turned = {"byteorder": lambda _: b"big", "data/0": lambda _: values.byteswap().tobytes()}
    swapped = rewritten(saved(torch.from_numpy(values)), turned)
    np.testing.assert_array_equal(read(swapped), values, strict=True)


def test_an_unknown_byte_order_is_refused() -> None:
    for order in (b"middle", b"", b"\xe5"):
        with pytest.raises(UnsafePayloadError, match="byte order"):
            read(rewritten(saved(torch.zeros(2)), {"byteorder": lambda _, order=order: order}))  # type: ignore[misc]


def rewritten(data: bytes, changes: dict[str, Callable[[bytes], bytes]]) -> bytes:
    """A zip with some members changed; a name is matched without the folder before it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            raw, inner = old.read(name), name.partition("/")[2]
            new.writestr(name, changes[inner](raw) if inner in changes else raw)
    return stream.getvalue()


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self.mark)!r}, 'w').close()",)


@FORMATS
def test_code_is_not_run(zipped: bool, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    read(saved({"x": Evil(mark)}, zipped=zipped))
    assert not mark.exists()


def test_a_tensor_beyond_its_storage_is_refused() -> None:
    data = saved({"x": torch.zeros(2, 3)})
    # The pickle says BININT1 2 and 3 for the shape; 200 of them would read far behind the six numbers.
    wide = rewritten(data, {"data.pkl": lambda raw: raw.replace(b"K\x02K\x03\x86", b"K\xc8K\x03\x86", 1)})
    with pytest.raises(UnsafePayloadError, match="beyond its storage"):
        read(wide)


@pytest.mark.parametrize("cut", [0, 1, 10, 0.5, -1])
@FORMATS
def test_cut_files_are_refused(zipped: bool, cut: float) -> None:
    data = saved({"x": torch.arange(100.0)}, zipped=zipped)
    end = int(len(data) * cut) if isinstance(cut, float) else cut
    with pytest.raises((UnsafePayloadError, ForeignFormatError)):
        read(data[:end])


def test_a_flipped_byte_in_a_zip_is_found() -> None:
    data = bytearray(saved({"x": torch.arange(100.0)}))
    data[data.index(torch.arange(100.0).numpy().tobytes()) + 5] ^= 1
    with pytest.raises(ForeignFormatError, match="damaged"):
        read(bytes(data))


def test_a_storage_that_is_missing_is_named() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(torch.zeros(3)))) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            if not name.endswith("data/0"):
                new.writestr(name, old.read(name))
    with pytest.raises(ForeignFormatError, match="data/0"):
        read(stream.getvalue())


def test_other_pickles_and_programs_are_named() -> None:
    program = io.BytesIO()
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), program)
    with pytest.raises(UnsafePayloadError, match="TorchScript"):
        read(program.getvalue())
    with pytest.raises(UnsafePayloadError, match="a pickle of something else"):
        read(pickle.dumps({"x": 1}))


def test_kinds_of_tensors_that_are_no_plain_numbers_stay_records() -> None:
    found = read(saved(torch.eye(3).to_sparse()))
    assert found.class_path == "torch._utils._rebuild_sparse_tensor"


@pytest.mark.parametrize("seed", range(50))
def test_damaged_files_raise_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(saved({"x": torch.arange(10.0), "y": torch.zeros(2, 2)}, zipped=bool(seed % 2)))
    for at in rng.integers(0, len(data), 3):
        data[at] = rng.integers(256)
    with suppress(RlpipeError):
        read(bytes(data))
