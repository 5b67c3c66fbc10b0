"""Makes the golden checkpoints of the format's version in this folder: python -m tests.golden.checkpoints

They are committed and never made again: a new version gets new folders, and the old ones stay for good. No value comes
from a random generator. `checkpoint_v0` is a policy from before version 1.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from rlpipe.checkpoint.format import VERSION
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Role, Snapshot, Spec
from rlpipe.snapshot.dtypes import DTYPES
from rlpipe.snapshot.state import Array, State, entries

HERE = Path(__file__).parent
BACKENDS: Mapping[str, str] = MappingProxyType({"hdf5": "state.h5", "pickle": "state.pkl"})

ATTACHED: Mapping[str, bytes] = MappingProxyType(
    {"onnx/policy.onnx": bytes(range(256)) * 4, "onnx/golden.npz": b"PK\r\n\0", "empty.onnx": b""}
)
"""Path below the attached folder -> bytes; with names that git takes for bytes."""

AWKWARD = ("a.b", "a/b", "100%", "\0", "", ".", "..", "\\", "\udc80", "weiß 策略 🙂", "n" * 300, "\u200b")


def of_dtype(name: str) -> Array:
    """Twelve numbers of a dtype that follow from their bytes; NaNs with payloads and infinities are among some."""
    dtype = DTYPES[name]
    if name == "bool":
        return (np.arange(12) % 3 == 0).reshape(3, 4)
    pattern = np.arange(12 * dtype.itemsize, dtype=np.uint32) * 37 % 256
    return pattern.astype(np.uint8).view(dtype).reshape(3, 4)


def numbers() -> State:
    """All dtypes and shapes."""
    return {
        "dtypes": {name: of_dtype(name) for name in DTYPES},
        "shapes": {
            "scalar": np.array(2.5, np.float32),
            "empty": np.zeros((0, 3), np.int16),
            "one": np.array([7], np.uint8),
            "deep": np.arange(24, dtype=np.float64).reshape(1, 2, 1, 3, 4),
            "specials": np.array([np.inf, -np.inf, np.nan, -0.0, 5e-324], np.float64),
        },
    }


def values() -> State:
    """All plain types, and sequences with arrays in them, like the state of an optimizer."""
    return {
        "plain": {
            "true": True,
            "one": 1,
            "float one": 1.0,
            "minus zero": -0.0,
            "none": None,
            "text": "weiß\n\0\udc80",
            "bytes": b"\0\xff",
            "inf": float("inf"),
            "minus inf": float("-inf"),
            "nan": float("nan"),
            "big": 2**80 + 1,
            "minus big": -(2**64),
            "edge": 2**53,
            "over the edge": 2**53 + 1,
            "no text": "",
            "no bytes": b"",
            "no dict": {},
            "no list": [],
            "no tuple": (),
        },
        "optimizer": {
            "groups": [{"betas": (0.9, 0.999), "lr": 1e-3, "params": [0, 1], "foreach": None, "a/b": {"": 2**70}}],
            "moments": ((np.arange(3, dtype=np.float32), None), [np.array(9, np.int64), {"m": np.ones((2, 2), bool)}]),
        },
    }


def awkward() -> State:
    """Names that mean something to a file system, a key or HDF5, each with an array and a value."""
    return {name: {"array": np.array([index], np.int32), name: index} for index, name in enumerate(AWKWARD)}


def policy(shared: Array, offset: int) -> Snapshot:
    """A policy with an encoder that all share, a head that is its critic's too, and a critic."""
    head = np.arange(offset, offset + 8, dtype=np.float32).reshape(2, 4)
    state = {"encoder": {"weight": shared}, "pi": {"weight": head}, "vf": {"pi": head, "bias": np.full(3, offset / 4)}}
    spec = Spec("rlpipe.golden.Policy", {"hidden": [4], "scale": 0.1}, {"inference_only": False})
    return _snapshot(spec, state, training=("vf/bias",), metadata={"env": "CartPole-v1", "returns": [1.5, None]})


def snapshot() -> Snapshot:
    """Everything that a checkpoint of this version can hold."""
    shared = (np.arange(12, dtype=np.float32).reshape(4, 3) - 6) / 8
    policies = {"p0": policy(shared, 0), "p1": policy(shared, 100), "pôle-2": policy(shared + 1, 200)}
    return _snapshot(
        Spec("rlpipe.golden.Algorithm"),
        {"epsilon": 0.25, "encoder": shared},
        children={
            "policies": _snapshot(Spec("rlpipe.golden.Container"), {}, children=policies),
            "learner": _snapshot(Spec("rlpipe.golden.Learner", {"lr": 3e-4, "nested": {"none": None}}), values()),
            "numbers": _snapshot(Spec("rlpipe.golden.Numbers"), numbers()),
            "awkward": _snapshot(Spec("rlpipe.golden.Awkward"), awkward(), metadata={"text": "ü"}),
        },
    )


def _snapshot(
    spec: Spec,
    state: State,
    *,
    training: tuple[str, ...] | None = None,
    children: Mapping[str, Snapshot] | None = None,
    metadata: Mapping[str, object] | None = None,
) -> Snapshot:
    roles: dict[str, Role] = {
        key: "training" if training is None or key in training else "inference" for key in entries(state)
    }
    return Snapshot(spec, state, roles, children or {}, metadata or {})


def write(path: Path, backend: str) -> Path:
    """Write it, with files attached to a policy."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in ATTACHED.items():
            file = Path(folder, name)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(data)
        provenance = {"task": "golden", "seed": 1, "versions": {"rlpipe": "0"}}
        attachments = {"policies/p1": folder}
        return write_checkpoint(snapshot(), path, backend=backend, provenance=provenance, attachments=attachments)


def main() -> None:
    """Write one for each backend, in place of one that was never committed."""
    for backend in BACKENDS:
        path = HERE / f"checkpoint_v{VERSION}_{backend}"
        shutil.rmtree(path, ignore_errors=True)
        write(path, backend)


if __name__ == "__main__":
    main()
