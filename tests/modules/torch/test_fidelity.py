"""What a torch module holds comes back to the bit, by state and by disk, and no file says where it lived."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlpipe.checkpoint.arrays import Arrays
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import TieError, UnsupportedStateError
from rlpipe.importers import resolve
from rlpipe.importers.restricted.torch_file import read_torch
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.snapshot.spaces import Box, Discrete
from rlpipe.snapshot.state import equal, from_dotted
from tests.importers.sb3_zips import GOLDEN, rewritten
from tests.modules.zoo import DTYPES, EXTRAS, SHAPES, Extra, Headed, WithExtras, Zoo

both = pytest.mark.parametrize("backend", ["hdf5", "pickle"])


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def built(cls: type[RLModule]) -> Any:
    return RLModuleSpec(cls, Box.uniform(-1, 1, (3,)), Discrete(2)).build()


def require_same(one: nn.Module, other: nn.Module) -> None:
    ours, theirs = one.state_dict(), other.state_dict()
    assert list(ours) == list(theirs)
    for name in ours:
        assert (ours[name].dtype, ours[name].shape) == (theirs[name].dtype, theirs[name].shape)
        assert bits(ours[name]) == bits(theirs[name]), name


@both
def test_every_dtype_and_layout_by_disk(tmp_path: Path, backend: str) -> None:
    made = built(Zoo)
    assert len(made.state_dict()) == len(DTYPES) * len(SHAPES) + 2
    path = made.save_to_path(tmp_path / "zoo", backend=backend)
    require_same(made, RLModule.from_checkpoint(path, trust=("tests.*",)))


def test_every_dtype_and_layout_by_state() -> None:
    made, other = built(Zoo), built(Zoo)
    for buffer in other.buffers():
        buffer.zero_()
    other.set_state(made.get_state())
    require_same(made, other)


class Shared(Headed):
    """Tensors that torch does not copy into as they are, and a part that it compiled."""

    def setup(self) -> None:
        super().setup()
        self.register_buffer("expanded", torch.randn(3, 1, 2).expand(3, 4, 2))
        self.register_buffer("one", torch.randn(()).expand(5))
        self.scripted = torch.jit.script(nn.Linear(2, 2))
        with torch.inference_mode():
            self.register_buffer("frozen", torch.randn(3))


@both
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_expanded_frozen_and_scripted_tensors(tmp_path: Path, backend: str) -> None:
    made, live, other = built(Shared), built(Shared), built(Shared)
    path = made.save_to_path(tmp_path / "shared", backend=backend)
    require_same(made, RLModule.from_checkpoint(path, trust=("tests.*",)))
    live.restore_from_path(path)
    require_same(made, live)
    other.set_state(made.get_state())
    require_same(made, other)
    assert other.expanded.stride() == made.expanded.stride()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_different_numbers_for_one_expanded_element_change_nothing() -> None:
    made = built(Shared)
    before, state = made.get_state(), made.get_state()
    state["head"]["bias"] += 1
    state["expanded"][0, 1, 1] += 1
    with pytest.raises(TieError, match="expanded has one number"):
        made.set_state(state)
    assert equal(made.get_state(), before)


@both
def test_extra_state_by_disk(tmp_path: Path, backend: str) -> None:
    made = built(WithExtras)
    path = made.save_to_path(tmp_path / "extras", backend=backend)
    found: Any = RLModule.from_checkpoint(path, trust=("tests.*",))
    for name, known in EXTRAS.items():
        extra = found.parts[name].extra
        assert torch.equal(extra, known) if name == "tensor" else equal(extra, known), name


def test_extra_state_by_state() -> None:
    made, other = built(WithExtras), built(WithExtras)
    made.parts["text"].extra = "another text"
    made.parts["dict"].extra = {**EXTRAS["dict"], "scale": -0.0}
    other.set_state(made.get_state())
    assert other.parts["text"].extra == "another text"
    assert equal(other.parts["dict"].extra, made.parts["dict"].extra)


def test_extra_state_that_no_checkpoint_holds_is_named() -> None:
    made = built(WithExtras)
    made.parts["dict"].extra = {"inside": torch.ones(2)}
    with pytest.raises(UnsupportedStateError, match="parts/dict/_extra_state/inside"):
        made.get_state()
    assert isinstance(made.parts["dict"], Extra)


@contextmanager
def tagged(location: str) -> Iterator[None]:
    """Let torch believe that every storage that it saves lives on a device."""

    def tag(_: Any) -> str:
        return location

    torch.serialization.register_package(0, tag, lambda *_: None)
    try:
        yield
    finally:
        registry = torch.serialization._package_registry
        registry.remove(next(entry for entry in registry if entry[1] is tag))


def saved(value: Any, location: str) -> bytes:
    stream = io.BytesIO()
    with tagged(location):
        torch.save(value, stream)
    assert location.encode() in stream.getvalue()
    return stream.getvalue()


def require_no_device(path: Path) -> None:
    files = [each for each in path.rglob("*") if each.is_file()]
    assert len(files) >= 2
    for file in files:
        content = file.read_bytes().lower()
        assert [word for word in (b"cuda", b"mps", b"device", b"xpu", b"gpu") if word in content] == [], file


@both
@pytest.mark.parametrize("location", ["cuda:0", "cuda:3", "mps"])
def test_files_from_another_device_say_nothing_of_it(tmp_path: Path, backend: str, location: str) -> None:
    weights = {"actor.weight": torch.arange(6.0).reshape(2, 3), "actor.bias": torch.zeros(2)}
    found = read_torch(saved(weights, location), subject="it")
    np.testing.assert_array_equal(found["actor.weight"], weights["actor.weight"].numpy())
    require_no_device(write_checkpoint(snapshot_of(Arrays(from_dotted(found))), tmp_path / "ckpt", backend=backend))


@both
@pytest.mark.parametrize("location", ["cuda:0", "mps"])
def test_a_policy_trained_on_another_device_says_nothing_of_it(tmp_path: Path, backend: str, location: str) -> None:
    importer = resolve("stable_baselines3")
    here = importer.read(GOLDEN / "ppo_box.zip", importer.Options()).snapshot

    def weights_of(path: Path) -> Any:
        state: Any = {}
        rewritten("ppo_box", path, weights=state.update)
        return state

    state = weights_of(tmp_path / "plain.zip")
    there = rewritten("ppo_box", tmp_path / "there.zip", members={"policy.pth": saved(state, location)})
    found = importer.read(there, importer.Options()).snapshot
    assert equal(found.state, here.state)
    require_no_device(write_checkpoint(found, tmp_path / "ckpt", backend=backend))


@both
def test_a_module_of_this_process_says_nothing_of_its_device(tmp_path: Path, backend: str) -> None:
    require_no_device(Path(built(Zoo).save_to_path(tmp_path / "zoo", backend=backend)))
