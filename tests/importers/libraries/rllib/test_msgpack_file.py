"""Files of msgpack hold plain numbers of checked size, or are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("msgpack", reason="the extra rllib is not installed")

import msgpack

from rlpipe.checkpoint.restore import build
from rlpipe.errors import UnsafePayloadError
from rlpipe.importers.libraries.rllib import Options, read, survey
from rlpipe.importers.libraries.rllib.msgpack_file import read_msgpack
from tests.importers.rllib_folders import GOLDEN, known

ARRAY = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [2], b"data": np.ones(2, np.float32).tobytes()}


def written(value: Any, folder: Path) -> Path:
    path = folder / "state.msgpack"
    path.write_bytes(msgpack.packb(value))
    return path


def test_a_checkpoint_of_msgpack_acts_as_rllib_did() -> None:
    assert survey(GOLDEN / "pair_filtered").encoding == "msgpack"
    found = read(GOLDEN / "pair_filtered", Options())
    for policy_id, snapshot in found.snapshot.children.items():
        observations, actions = known("pair_filtered", policy_id)
        policy: Any = build(snapshot)
        reach = 1e-6 * max(1.0, float(np.ptp(actions)))
        np.testing.assert_allclose(policy.compute_actions(observations), actions, rtol=0, atol=reach)


def test_plain_values_and_arrays_come_back(tmp_path: Path) -> None:
    scalar = {b"nd": False, b"type": "<f8", b"data": np.float64(3).tobytes()}
    found = read_msgpack(written({"a": ARRAY, None: [1, 2.5, "x", b"y", None, True], 7: scalar}, tmp_path))
    np.testing.assert_array_equal(found["a"], np.ones(2, np.float32), strict=True)
    assert found[None] == [1, 2.5, "x", b"y", None, True]
    assert found[7] == 3.0


@pytest.mark.parametrize(
    "value",
    [
        {**ARRAY, b"type": "|O"},
        {**ARRAY, b"kind": b"O"},
        {**ARRAY, b"kind": b"V", b"type": [["x", "<f4"]]},
        {**ARRAY, b"shape": [3]},
        {**ARRAY, b"shape": [-2]},
        {**ARRAY, b"shape": [2**60]},
        {**ARRAY, b"shape": 2},
        {**ARRAY, b"data": "text"},
        {**ARRAY, b"type": 4},
        {**ARRAY, b"type": ""},
        msgpack.ExtType(5, b"code"),
        msgpack.Timestamp(0),
    ],
)
def test_what_is_no_plain_number_is_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(UnsafePayloadError):
        read_msgpack(written({"x": value}, tmp_path))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 5000 + b"\xc0",
        b"\x81" + b"\xdc\x00\x01\x00" + b"\x00",
        b"\xc0\xc0",
        b"\xc1",
        b"\xa2\xff\xff",
    ],
)
def test_broken_bytes_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state.msgpack"
    path.write_bytes(data)
    with pytest.raises(UnsafePayloadError):
        read_msgpack(path)


def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['msgpack'] = None\n"
        "from pathlib import Path; from rlpipe.importers.libraries.rllib import Options, read\n"
        "try: read(Path(sys.argv[1]), Options())\n"
        "except ImportError as error: print(error)"
    )
    command = [sys.executable, "-c", script, str(GOLDEN / "pair_filtered")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "pip install 'rlpipe[rllib]'" in done.stdout, done.stderr
