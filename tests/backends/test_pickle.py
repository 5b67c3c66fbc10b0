from __future__ import annotations

import io
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.backends import resolve
from tests.conformance.backend_suite import Array, BackendSuite, slot, write

ALONE = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    state = pickle.load(file)
assert type(state) is dict and {type(array).__module__ for array in state.values()} == {"numpy"}
assert not {"rlpipe", "ml_dtypes", "torch", "xxhash"} & set(sys.modules), sorted(sys.modules)
print({key: (array.dtype.str, array.shape, array.tolist(), array.flags.writeable) for key, array in state.items()})
"""


def image(arrays: dict[str, Any]) -> bytes:
    """The bytes of the file, put together without rlpipe's writer."""
    found = {key: np.asarray(array) for key, array in arrays.items()}
    layout = resolve("pickle").layout([slot(key, each) for key, each in found.items()])
    parts = [layout.frame[0]]
    for key, after in zip(layout.order, layout.frame[1:], strict=True):
        parts += (found[key].tobytes(), after)
    return b"".join(parts)


class TestPickle(BackendSuite):
    backend_id = "pickle"

    def read_raw(self, path: Path, keys: list[str]) -> dict[str, Array]:
        with path.open("rb") as file:
            found: dict[str, Array] = pickle.load(file)
        return {key: found[key] for key in keys}


def test_loads_in_a_process_that_knows_numpy_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.pkl"
    path.write_bytes(image({"encoder/0/weight": np.eye(2, dtype="f4"), "steps": np.array(3), "none": np.zeros((0, 2))}))
    run = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, path], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert eval(run.stdout) == {
        "encoder/0/weight": ("<f4", (2, 2), [[1, 0], [0, 1]], True),
        "none": ("<f8", (0, 2), [], True),
        "steps": ("<i8", (), 3, True),
    }


def test_names_one_global_only() -> None:
    opcodes = list(pickletools.genops(image({f"n{index}": np.zeros(index) for index in range(300)})))
    assert [name.name for name, _, _ in opcodes].count("STACK_GLOBAL") == 1
    assert not {"GLOBAL", "INST", "OBJ", "NEWOBJ", "BUILD", "EXT1"} & {name.name for name, _, _ in opcodes}
    before = [argument for name, argument, _ in opcodes if name.name == "SHORT_BINUNICODE"][:2]
    assert before == ["numpy", "ndarray"]


def test_is_a_well_formed_pickle_of_protocol_5() -> None:
    out = io.StringIO()
    pickletools.dis(image({"a/b": np.arange(3), "c": np.zeros((0,))}), out=out)
    assert "PROTO      5" in out.getvalue()
    assert "highest protocol among opcodes = 5" in out.getvalue()


def test_the_unpickler_written_in_python_reads_it_too() -> None:
    arrays = {f"n{index}": np.arange(index) for index in range(20)}
    found = pickle._loads(image(arrays))  # type: ignore[attr-defined]
    assert {key: array.tolist() for key, array in found.items()} == {
        key: array.tolist() for key, array in arrays.items()
    }


def test_names_of_a_tied_array_are_one_array(tmp_path: Path) -> None:
    arrays = {"a": np.arange(3), "z": np.arange(3)}
    slots = [slot("a", arrays["a"], aliases=("b/c",)), slot("z", arrays["z"], aliases=("y",))]
    write(resolve("pickle").layout(slots), arrays, tmp_path / "state.pkl")
    with (tmp_path / "state.pkl").open("rb") as file:
        found = pickle.load(file)
    assert found["a"] is found["b/c"]
    assert found["z"] is found["y"]
    assert found["a"] is not found["z"]


@pytest.mark.parametrize("rank", [0, 1, 33, 64])
def test_takes_any_number_of_dimensions(rank: int) -> None:
    assert pickle.loads(image({"a": np.zeros((1,) * rank)}))["a"].shape == (1,) * rank


def test_a_length_beyond_31_bits() -> None:
    assert pickle.loads(image({"a": np.zeros((0, 2**40), np.uint8)}))["a"].shape == (0, 2**40)
