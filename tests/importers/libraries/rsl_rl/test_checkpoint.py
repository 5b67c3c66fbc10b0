"""Files of rsl_rl that are damaged, foreign or hostile, and layouts that no golden file has."""

from __future__ import annotations

import collections
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.checkpoint.restore import build
from rlpipe.errors import ForeignFormatError, NormalizerError, RlpipeError, UnsafePayloadError
from rlpipe.importers import recognise
from rlpipe.importers.importer import resolve
from rlpipe.importers.libraries.rsl_rl import read
from rlpipe.snapshot.identity import content_hash
from tests.importers.libraries.rsl_rl.test_importer import ALONE, golden

Content = dict[str, Any]


def saved(folder: Path, content: Any, name: str = "model_1.pt") -> Path:
    path = folder / name
    torch.save(content, path)
    return path


def loaded(name: str) -> Content:
    content: Content = torch.load(golden(name), weights_only=True)
    return content


def changed(folder: Path, name: str, change: Callable[[Content], object]) -> Path:
    content = loaded(name)
    change(content)
    return saved(folder, content)


def actions_of(path: Path) -> Any:
    with np.load(golden("v5_mlp").with_suffix(".npz")) as known:
        observations = known["observations"]
    policy: Any = build(read(path, ALONE).snapshot)
    return policy.compute_actions(observations[:, : policy.spec.observation_space.shape[0]])


def test_one_policy_in_the_layouts_of_all_versions_is_the_same(tmp_path: Path) -> None:
    new = loaded("v5_mlp")
    actor, critic = new["actor_state_dict"], new["critic_state_dict"]

    def joint(normaliser: bool) -> Content:
        tensors = {"std": actor["distribution.std_param"]}
        for role, part in (("actor", actor), ("critic", critic)):
            tensors |= {f"{role}.{name[4:]}": value for name, value in part.items() if name.startswith("mlp.")}
            if normaliser:
                tensors |= {f"{role}_{name}": value for name, value in part.items() if name.startswith("obs_norm")}
        rest = {name: new[name] for name in ("optimizer_state_dict", "iter", "infos")}
        return {"model_state_dict": tensors, **rest}

    statistics = [
        {name[15:]: value for name, value in part.items() if name.startswith("obs_n")} for part in (actor, critic)
    ]
    layouts = {
        "5.x": new,
        "4.x": {
            **new,
            "actor_state_dict": {name.replace("distribution.std_param", "std"): value for name, value in actor.items()},
        },
        "3.x": joint(normaliser=True),
        "2.x": joint(normaliser=False)
        | {"obs_norm_state_dict": statistics[0], "critic_obs_norm_state_dict": statistics[1]},
    }
    found = {}
    for version, content in layouts.items():
        imported = read(saved(tmp_path, content, f"{version}.pt"), ALONE)
        assert imported.snapshot.metadata["source"]["version"] == version
        found[content_hash(imported.snapshot)] = version
    assert len(found) == 1


def test_names_of_torch_compile_are_taken_out(tmp_path: Path) -> None:
    def rename(content: Content) -> None:
        actor = content["actor_state_dict"]
        content["actor_state_dict"] = {f"_orig_mod.{name}": value for name, value in actor.items()}

    path = changed(tmp_path, "v5_mlp", rename)
    found = read(path, ALONE)
    assert content_hash(found.snapshot) == content_hash(read(golden("v5_mlp"), ALONE).snapshot)
    assert any("torch.compile" in note for note in found.report.warnings)


def test_a_critic_of_another_shape_does_not_keep_the_actor_from_acting(tmp_path: Path) -> None:
    def spoil(content: Content) -> None:
        content["critic_state_dict"]["mlp.2.weight"] = torch.zeros(5, 5, 5)

    path = changed(tmp_path, "v5_mlp", spoil)
    np.testing.assert_array_equal(actions_of(path), actions_of(golden("v5_mlp")))
    assert "does not fit" in dict(read(path, ALONE).report.skipped)["the critic"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("v5_mlp", lambda content: content["critic_state_dict"].update({"cnns.camera.0.weight": torch.zeros(2)})),
        ("v5_mlp", lambda content: content.pop("critic_state_dict")),
        ("v3_mlp", lambda content: content["model_state_dict"].update({"critic_cnns.0.weight": torch.zeros(2)})),
    ],
)
def test_a_critic_of_another_kind_stays_behind(tmp_path: Path, name: str, change: Callable[[Content], object]) -> None:
    found = read(changed(tmp_path, name, change), ALONE)
    assert set(found.snapshot.roles.values()) == {"inference"}


def test_weights_of_half_precision_are_read_as_the_library_reads_them(tmp_path: Path) -> None:
    def halve(content: Content) -> None:
        actor = content["actor_state_dict"]
        actor.update({name: value.bfloat16() for name, value in actor.items() if name.startswith("mlp")})

    np.testing.assert_allclose(actions_of(changed(tmp_path, "v5_mlp", halve)), actions_of(golden("v5_mlp")), atol=0.1)


def test_parts_of_a_fork_are_named_and_statistics_among_them_warned_about(tmp_path: Path) -> None:
    extra = {"amp_normalizer": {"mean": torch.zeros(3)}, "discriminator_state_dict": {"w": torch.zeros(3)}}
    found = read(changed(tmp_path, "v5_mlp", lambda content: content.update(extra)), ALONE)
    assert extra.keys() <= dict(found.report.skipped).keys()
    assert any("amp_normalizer" in note for note in found.report.warnings)


def test_deviations_below_the_least_are_raised_to_it(tmp_path: Path) -> None:
    def shrink(content: Content) -> None:
        content["actor_state_dict"]["distribution.std_param"][0] = -1.0

    found = read(changed(tmp_path, "v5_mlp", shrink), ALONE)
    assert any("deviations below" in note for note in found.report.warnings)
    assert np.isclose(found.snapshot.state["pi"]["log_std"][0], np.log(1e-6))


def broken(part: str, name: object, value: Any) -> Callable[[Content], object]:
    return lambda content: content[part].update({name: value}) if value is not None else content[part].pop(name)


ACTOR = "actor_state_dict"


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (broken(ACTOR, "mlp.2.bias", None), ForeignFormatError, "no plain stack"),
        (broken(ACTOR, "mlp.6.weight", torch.zeros(1)), ForeignFormatError, "no plain stack"),
        (broken(ACTOR, "mlp.3.weight", torch.zeros(1)), ForeignFormatError, "no plain stack"),
        (broken(ACTOR, "mlp.0.weight", torch.zeros(16)), ForeignFormatError, "does not fit"),
        (broken(ACTOR, "mlp.2.weight", torch.zeros(8, 17)), ForeignFormatError, "does not fit"),
        (broken(ACTOR, "mlp.2.bias", torch.zeros(())), ForeignFormatError, "does not fit"),
        (broken(ACTOR, "mlp.2.bias", torch.zeros(8, dtype=torch.int64)), ForeignFormatError, "does not fit"),
        (broken(ACTOR, "distribution.std_param", torch.zeros(4)), ForeignFormatError, "does not fit"),
        (broken(ACTOR, "attention.weight", torch.zeros(4)), ForeignFormatError, "attention"),
        (broken(ACTOR, "cnns.camera.0.weight", torch.zeros(4)), ForeignFormatError, "convolutions"),
        (broken(ACTOR, "mlp.0.weight", "text"), ForeignFormatError, "no state dict"),
        (broken(ACTOR, 3, torch.zeros(1)), ForeignFormatError, "no state dict"),
        (broken(ACTOR, "_orig_mod.mlp.0.bias", torch.zeros(16)), ForeignFormatError, "twice"),
        (broken(ACTOR, "obs_normalizer._std", None), NormalizerError, "unknown kind"),
        (broken(ACTOR, "obs_normalizer._scale", torch.zeros(1, 8)), NormalizerError, "unknown kind"),
        (broken(ACTOR, "obs_normalizer._std", -torch.ones(1, 8)), NormalizerError, "cannot normalise"),
        (broken(ACTOR, "obs_normalizer._mean", torch.full((1, 8), torch.inf)), NormalizerError, "cannot normalise"),
        (broken(ACTOR, "obs_normalizer._mean", torch.zeros(1, 7)), ForeignFormatError, "does not fit"),
        (broken(ACTOR, "obs_normalizer._mean", torch.zeros(2, 8)), ForeignFormatError, "does not fit"),
    ],
)
def test_a_broken_actor_is_refused(tmp_path: Path, change: Callable[[Content], object], error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        read(changed(tmp_path, "v5_mlp", change), ALONE)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (broken(ACTOR, "rnn.rnn.weight_hh_l0", torch.zeros(24, 12)), "2 blocks"),
        (broken(ACTOR, "rnn.rnn.weight_hh_l0", torch.zeros(48, 0)), "unknown kind"),
        (broken(ACTOR, "rnn.rnn.weight_hh_l0", None), "unknown kind"),
        (broken(ACTOR, "rnn.rnn.bias_hh_l1", None), "unknown kind"),
        (broken(ACTOR, "rnn.rnn.weight_ih_l0_reverse", torch.zeros(48, 6)), "unknown kind"),
        (broken(ACTOR, "rnn.rnn.weight_ih_l1", torch.zeros(48, 11)), "does not fit"),
        (broken(ACTOR, "mlp.0.weight", torch.zeros(16, 13)), "do not fit its memory"),
    ],
)
def test_a_broken_memory_is_refused(tmp_path: Path, change: Callable[[Content], object], says: str) -> None:
    with pytest.raises(ForeignFormatError, match=says):
        read(changed(tmp_path, "v5_lstm", change), ALONE)


@pytest.mark.parametrize(
    "content",
    [
        torch.zeros(3),
        [1, 2],
        {},
        {"model_state_dict": torch.zeros(2), "optimizer_state_dict": {}, "iter": 1, "infos": None},
        {"state_dict": {"actor.0.weight": torch.zeros(2, 2)}, "iter": 1},
        {"policy": {"net.0.weight": torch.zeros(2, 2)}, "optimizer": {}},
    ],
)
def test_other_torch_files_are_not_taken_for_one(tmp_path: Path, content: Any) -> None:
    path = saved(tmp_path, content)
    assert not resolve("rsl_rl").recognise(path)
    with pytest.raises(ForeignFormatError, match="no checkpoint of rsl_rl"):
        read(path, ALONE)


def test_an_exported_program_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "policy.pt"
    with zipfile.ZipFile(path, "w") as packed:
        for name in ("policy/data.pkl", "policy/constants.pkl", "policy/code/__torch__.py"):
            packed.writestr(name, b"actor.0.weight")
    with pytest.raises(ForeignFormatError, match="TorchScript"):
        recognise(path)


class Command:
    """What a hostile file asks a reader to call."""

    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (open, (self.target, "w"))


@pytest.mark.parametrize("where", ["infos", "iter", "actor_state_dict"])
def test_nothing_in_a_file_is_run(tmp_path: Path, where: str) -> None:
    target = tmp_path / "made"

    def poison(content: Content) -> None:
        if where == "actor_state_dict":
            content[where]["x"] = Command(str(target))
        else:
            content[where] = Command(str(target))

    path = changed(tmp_path, "v5_mlp", poison)
    assert recognise(path) == "rsl_rl"
    if where == "infos":
        assert content_hash(read(path, ALONE).snapshot) == content_hash(read(golden("v5_mlp"), ALONE).snapshot)
    elif where == "actor_state_dict":
        with pytest.raises(RlpipeError):
            read(path, ALONE)
    else:
        assert read(path, ALONE).snapshot.metadata["trained"] is False
    assert not target.exists()


def test_a_zip_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        names = ["model_state_dict", "optimizer_state_dict", "iter", "infos", "actor.0.weight"]
        packed.writestr("m/data.pkl", pickle.dumps(names))
        packed.writestr("m/data/0", bytes(64 * 2**20))
    with pytest.raises(UnsafePayloadError, match="not read"):
        read(path, ALONE)


def test_a_dict_with_names_of_its_own_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model_1.pt"
    torch.save(collections.OrderedDict(loaded("v5_mlp")), path)
    assert recognise(path) == "rsl_rl"
    stream = io.BytesIO(path.read_bytes()[:-200])
    path.write_bytes(stream.getvalue())
    assert not resolve("rsl_rl").recognise(path)
