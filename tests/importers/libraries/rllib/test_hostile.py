"""Directories that were made to run code, to fill memory, or to lead elsewhere."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError, NormalizerError, RlpipeError, UnsafePayloadError
from rlpipe.importers.libraries.rllib import Options, policy_ids, read, recognise, survey
from tests.importers.rllib_folders import CONNECTORS, MODULES, copied, rewritten

FILES = (
    f"{MODULES}/default_policy/module_state.pkl",
    f"{MODULES}/default_policy/class_and_ctor_args.pkl",
    f"{CONNECTORS}/class_and_ctor_args.pkl",
    f"{CONNECTORS}/MeanStdFilter/state.pkl",
    "env_runner/state.pkl",
)


PLACES = (
    *(("ppo_filtered", file) for file in FILES),
    ("ppo_choices", "class_and_ctor_args.pkl"),
    ("ppo_choices", "learner_group/learner/class_and_ctor_args.pkl"),
    ("pair_filtered", f"{MODULES}/p_left/class_and_ctor_args.pkl"),
    ("old_filtered", "algorithm_state.pkl"),
    ("old_filtered", "policies/default_policy/policy_state.pkl"),
    ("old_dqn", "policies/default_policy/policy_state.pkl"),
    ("ray_2_40", f"{MODULES}/default_policy/module_state.pt"),
)


class Running:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize(("name", "file"), PLACES)
def test_code_in_a_pickle_is_not_run(name: str, file: str, tmp_path: Path) -> None:
    root = copied(name, tmp_path)
    assert (root / file).is_file()
    marker = tmp_path / "ran"
    for value in (Running(marker), {"x": Running(marker)}, {"class": Running(marker), "y": [Running(marker)]}):
        (root / file).write_bytes(pickle.dumps(value))
        try:
            read(root, Options())
            survey(root)
        except RlpipeError:
            pass
        assert not marker.exists()


@pytest.mark.parametrize("file", FILES)
def test_values_that_grow_without_end_are_refused(file: str, tmp_path: Path) -> None:
    root = copied("ppo_filtered", tmp_path)
    doubling = b"\x80\x04(lp0\n" + b"".join(b"(g%d\ng%d\nlp%d\n" % (i, i, i + 1) for i in range(200)) + b"."
    for data in (doubling, b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b"."):
        (root / file).write_bytes(data)
        with pytest.raises(RlpipeError):
            read(root, Options())


def packed_npy(header: bytes, body: bytes) -> str:
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body
    return base64.b64encode(zlib.compress(raw)).decode()


HEADER = b"{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n"
BOMBS = {
    "zeros": base64.b64encode(zlib.compress(bytes(80 * 2**20))).decode(),
    "a shape without numbers": packed_npy(HEADER % (b"<f8", b"(1000000000000,)"), b""),
    "objects": packed_npy(HEADER % (b"|O", b"(1,)"), pickle.dumps(Running(Path("ran")))),
    "no text": 7,
    "no base64": "###",
    "no array": base64.b64encode(zlib.compress(b"hello")).decode(),
    "cut": base64.b64encode(zlib.compress(bytes(100))[:-4]).decode(),
    "deep": packed_npy(b"(" * 5000, b""),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_packed_arrays_that_are_none_are_refused(bomb: str, tmp_path: Path) -> None:
    root = copied("ppo_filtered", tmp_path)

    def put(state: Any) -> None:
        state[None]["running_stats"][0]["mean_array"] = BOMBS[bomb]

    rewritten(root / CONNECTORS / "MeanStdFilter" / "state.pkl", put)
    with pytest.raises(NormalizerError):
        read(root, Options())


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000, '"x"', "\xff"])
def test_broken_json_is_named(text: str, tmp_path: Path) -> None:
    root = copied("ppo_choices", tmp_path)
    (root / "rllib_checkpoint.json").write_text(text, encoding="latin1")
    assert recognise(root)
    for reading in (lambda: read(root, Options()), lambda: survey(root)):
        with pytest.raises(ForeignFormatError, match=r"rllib_checkpoint\.json"):
            reading()


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    root = copied("pair", tmp_path)
    (root / MODULES / "p_loop").symlink_to(root / MODULES, target_is_directory=True)
    assert set(policy_ids(root) or ()) >= {"p_left", "p_right"}


def test_pipes_are_no_state_files(tmp_path: Path) -> None:
    root = copied("ppo_choices", tmp_path)
    state = root / MODULES / "default_policy" / "module_state.pkl"
    state.unlink()
    os.mkfifo(state)
    with pytest.raises(ForeignFormatError):
        read(root, Options())


def test_paths_in_files_lead_nowhere(tmp_path: Path) -> None:
    root = copied("old_filtered", tmp_path)
    facts = {"type": "Algorithm", "checkpoint_version": "1.1", "state_file": "/etc/passwd", "policy_ids": ["../.."]}
    (root / "rllib_checkpoint.json").write_text(json.dumps(facts))
    assert survey(root).policy_ids == ("default_policy",)


@pytest.mark.parametrize(
    "weights", [{}, {"x": np.arange(3)}, {"x": [1.0]}, {3: np.ones(2, np.float32)}, {"x": np.ones(1, np.complex64)}]
)
def test_states_that_are_no_weights_are_refused(weights: Any, tmp_path: Path) -> None:
    root = copied("ppo_choices", tmp_path)
    (root / FILES[0]).write_bytes(pickle.dumps(weights))
    with pytest.raises(ForeignFormatError, match="no weights"):
        read(root, Options())


@pytest.mark.parametrize("change", ["missing", "extra", "shape", "values"])
def test_weights_that_are_not_whole_are_refused(change: str, tmp_path: Path) -> None:
    root = copied("ppo_box", tmp_path)

    def spoil(state: Any) -> None:
        if change == "missing":
            del state["encoder.actor_encoder.net.mlp.2.bias"]
        elif change == "extra":
            state["encoder.actor_encoder.net.mlp.1.weight"] = np.ones(8, np.float32)
        elif change == "shape":
            state["pi.net.mlp.0.weight"] = np.ones((4, 7), np.float32)
        else:
            state["icm.weight"] = np.ones((4, 7), np.float32)

    rewritten(root / FILES[0], spoil)
    with pytest.raises(ForeignFormatError):
        read(root, Options())


def test_a_second_pickle_behind_the_first_is_refused(tmp_path: Path) -> None:
    root = copied("ppo_choices", tmp_path)
    with (root / FILES[0]).open("ab") as stream:
        stream.write(pickle.dumps({}))
    with pytest.raises(UnsafePayloadError):
        read(root, Options())
