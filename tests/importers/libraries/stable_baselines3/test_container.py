"""Damaged, incomplete and hostile zips of Stable-Baselines3."""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers.libraries.stable_baselines3 import Options, read, recognise
from rlpipe.importers.libraries.stable_baselines3.container import open_model
from rlpipe.snapshot.identity import content_hash
from tests.importers.sb3_zips import GOLDEN, Evil, pickled, rewritten

SOURCE = "ppo_discrete"


def saved(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


@pytest.mark.parametrize("member", ["data", "policy.pth"])
def test_a_missing_member_is_named(member: str, tmp_path: Path) -> None:
    path = rewritten(SOURCE, tmp_path / "model.zip", without=[member])
    assert recognise(path)
    with pytest.raises(ForeignFormatError) as caught:
        read(path, Options())
    assert f"model.zip has no member {member}" in caught.value.subject
    assert "model.save()" in caught.value.fix


@pytest.mark.parametrize("member", ["_stable_baselines3_version", "system_info.txt", "pytorch_variables.pth"])
def test_members_that_are_not_needed_may_be_absent(member: str, tmp_path: Path) -> None:
    path = rewritten(SOURCE, tmp_path / "model.zip", without=[member])
    original = read(GOLDEN / f"{SOURCE}.zip", Options()).snapshot
    assert content_hash(read(path, Options()).snapshot) == content_hash(original)


@pytest.mark.parametrize("field", ["lr_schedule", "clip_range", "ep_info_buffer", "rollout_buffer_class", "_last_obs"])
def test_a_broken_field_that_is_not_needed_does_not_matter(field: str, tmp_path: Path) -> None:
    """Schedules are often functions pickled by another Python."""
    noise = base64.b64encode(np.random.default_rng(0).bytes(40)).decode()

    def change(data: dict[str, Any]) -> None:
        data[field] = {":type:": "<class 'function'>", ":serialized:": noise}

    path = rewritten(SOURCE, tmp_path / "model.zip", data=change)
    original = read(GOLDEN / f"{SOURCE}.zip", Options()).snapshot
    assert content_hash(read(path, Options()).snapshot) == content_hash(original)


@pytest.mark.parametrize(
    "field", ["observation_space", "action_space", "policy_class", "_last_obs", "lr_schedule", "policy_kwargs"]
)
def test_code_in_a_field_is_not_run(field: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    def change(data: dict[str, Any]) -> None:
        data[field] = pickled(Evil(mark))

    path = rewritten(SOURCE, tmp_path / "model.zip", data=change)
    recognise(path)
    if field in ("_last_obs", "lr_schedule"):
        read(path, Options())
    elif field == "policy_class":
        with pytest.raises(ForeignFormatError, match=r"builtins\.exec"):
            read(path, Options())
    else:
        with pytest.raises(ForeignFormatError, match=field):
            read(path, Options())
    assert not mark.exists()


@pytest.mark.parametrize("member", ["policy.pth", "pytorch_variables.pth"])
@pytest.mark.parametrize("place", ["value", "whole", "bare"])
def test_code_in_weights_is_not_run(member: str, place: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    contents: dict[str, Callable[[], bytes]] = {
        "value": lambda: saved({"x": Evil(mark)}),
        "whole": lambda: saved(Evil(mark)),
        "bare": lambda: pickle.dumps(Evil(mark)),
    }
    path = rewritten(SOURCE, tmp_path / "model.zip", members={member: contents[place]()})
    with pytest.raises((ForeignFormatError, UnsafePayloadError)) as caught:
        read(path, Options())
    assert member in caught.value.subject
    assert not mark.exists()


def test_code_in_an_optimizer_is_not_even_read(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    evil = pickle.dumps(Evil(mark))
    path = rewritten(SOURCE, tmp_path / "model.zip", members={"policy.optimizer.pth": evil, "extra.pkl": evil})
    skipped = dict(read(path, Options()).report.skipped)
    assert skipped["extra.pkl"] == "not a member that Stable-Baselines3 writes"
    assert not mark.exists()


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "C:/evil", "a\\..\\evil"])
def test_names_that_leave_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    path = rewritten(SOURCE, tmp_path / "model.zip", members={name: b""})
    assert recognise(path)
    with pytest.raises(UnsafePayloadError, match="evil"):
        read(path, Options())


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = rewritten(SOURCE, tmp_path / "model.zip")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("data", "{}")
    with pytest.raises(UnsafePayloadError, match="twice"):
        read(path, Options())


def test_an_absurd_size_is_refused(tmp_path: Path) -> None:
    """The directory says that a few stored bytes are 4 GB."""
    path = rewritten(SOURCE, tmp_path / "model.zip")
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"PK\x01\x02")
    raw[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFFF0)
    path.write_bytes(raw)
    with pytest.raises(UnsafePayloadError, match="4294967280 bytes"):
        read(path, Options())


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = rewritten(SOURCE, tmp_path / "model.zip")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(2**26 + 1))
    with pytest.raises(UnsafePayloadError, match="bomb"):
        read(path, Options())


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_data_that_is_no_json_object_is_named(content: bytes, tmp_path: Path) -> None:
    path = rewritten(SOURCE, tmp_path / "model.zip", members={"data": content})
    with pytest.raises(ForeignFormatError, match="the member data of"):
        read(path, Options())


def test_weights_that_are_no_state_dict_are_named(tmp_path: Path) -> None:
    one = torch.zeros(1)
    for value in (one, [1, 2], {"x": {"y": one}}, {1: one}, {"x": torch.eye(2).to_sparse()}):
        path = rewritten(SOURCE, tmp_path / "model.zip", members={"policy.pth": saved(value)})
        with pytest.raises(ForeignFormatError):
            read(path, Options())


def test_weights_of_other_float_types_become_float32_as_the_trainer_does_it(tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        state["action_net.weight"] = state["action_net.weight"].to(torch.float64)
        state["action_net.bias"] = state["action_net.bias"].to(torch.bfloat16)

    found = read(rewritten(SOURCE, tmp_path / "model.zip", weights=change), Options()).snapshot
    original = read(GOLDEN / f"{SOURCE}.zip", Options()).snapshot
    head, expected = found.state["pi"]["logits"], original.state["pi"]["logits"]
    np.testing.assert_array_equal(head["weight"], expected["weight"], strict=True)
    assert head["bias"].dtype == np.float32


def test_weights_that_are_not_finite_are_noted(tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        state["value_net.bias"][0] = float("nan")

    report = read(rewritten(SOURCE, tmp_path / "model.zip", weights=change), Options()).report
    assert "weights that are not finite: vf/bias" in report.notes


def test_a_path_without_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ForeignFormatError, match="there is no file"):
        open_model(tmp_path / "model.zip")


def test_the_version_is_read_as_short_text(tmp_path: Path) -> None:
    path = rewritten(SOURCE, tmp_path / "model.zip", members={"_stable_baselines3_version": b"\xff" * 100})
    assert len(open_model(path).version) == 40
    plain = json.loads(zipfile.ZipFile(GOLDEN / f"{SOURCE}.zip").read("data"))
    assert open_model(path).steps == plain["num_timesteps"]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.bool, torch.uint8])
@pytest.mark.parametrize("key", ["action_net.bias", "mlp_extractor.value_net.0.weight"])
def test_weights_that_are_no_floats_are_refused_by_name(key: str, dtype: torch.dtype, tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        state[key] = torch.zeros(state[key].shape, dtype=dtype)

    with pytest.raises(ForeignFormatError) as caught:
        read(rewritten(SOURCE, tmp_path / "model.zip", weights=change), Options())
    assert key in caught.value.subject
    assert caught.value.found == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_floats_of_any_width_become_float32(dtype: torch.dtype, tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        state.update({key: tensor.to(dtype) for key, tensor in state.items()})

    model = open_model(rewritten(SOURCE, tmp_path / "model.zip", weights=change))
    assert {array.dtype for array in model.weights.values()} == {np.dtype(np.float32)}


def test_a_learned_entropy_coefficient_that_is_no_float_is_refused(tmp_path: Path) -> None:
    variables = saved({"log_ent_coef": torch.zeros(1, dtype=torch.complex64)})
    path = rewritten("sac", tmp_path / "model.zip", members={"pytorch_variables.pth": variables})
    with pytest.raises(ForeignFormatError, match="log_ent_coef"):
        read(path, Options())


def test_two_names_of_one_weight_are_both_named(tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        state["_orig_mod.action_net.bias"] = torch.ones_like(state["action_net.bias"])

    with pytest.raises(ForeignFormatError) as caught:
        read(rewritten(SOURCE, tmp_path / "model.zip", weights=change), Options())
    assert caught.value.found == "_orig_mod.action_net.bias and action_net.bias"
