"""Policies that cannot be imported yet are told by name, and settings that cannot be read are not guessed."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import torch

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.stable_baselines3 import Options, read
from tests.importers.sb3_zips import rewritten


def refused(path: Path) -> ForeignFormatError:
    with pytest.raises(ForeignFormatError) as caught:
        read(path, Options())
    assert path.name in str(caught.value)
    assert caught.value.fix
    return caught.value


def policy_class(module: str, name: str) -> dict[str, str]:
    """The field of a class that only its pickle names: the opcode GLOBAL and the end."""
    raw = f"c{module}\n{name}\n.".encode()
    return {":type:": "<class 'abc.ABCMeta'>", ":serialized:": base64.b64encode(raw).decode()}


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("ActorCriticCnnPolicy", "CnnPolicy"),
        ("MultiInputActorCriticPolicy", "MultiInputPolicy"),
        ("MyPolicy", "pretend.policies.MyPolicy"),
    ],
)
def test_other_policy_classes_are_refused_by_name(name: str, what: str, tmp_path: Path) -> None:
    module = "pretend.policies" if name == "MyPolicy" else "stable_baselines3.common.policies"

    def change(data: dict[str, Any]) -> None:
        data["policy_class"] = policy_class(module, name)

    assert what in refused(rewritten("ppo_discrete", tmp_path / "model.zip", data=change)).found


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("lstm_actor.weight_ih_l0", "RecurrentPPO"),
        ("quantile_net.quantile_net.0.weight", "QRDQN"),
        ("actor_target.mu.0.weight", "TD3"),
        ("features_extractor.cnn.0.weight", "CnnPolicy"),
        ("features_extractor.extractors.image.cnn.0.weight", "MultiInputPolicy"),
    ],
)
def test_other_networks_are_refused_by_name(key: str, what: str, tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        state[key] = torch.zeros(1)

    assert what in refused(rewritten("ppo_discrete", tmp_path / "model.zip", weights=change)).found


def test_tqc_is_told_from_sac(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["top_quantiles_to_drop_per_net"] = 2

    assert "TQC" in refused(rewritten("sac", tmp_path / "model.zip", data=change)).found


@pytest.mark.parametrize(
    ("field", "algorithm"), [({"cg_max_steps": 15}, "TRPO"), ({"clip_range": 0.2}, "PPO"), ({}, "A2C")]
)
def test_on_policy_algorithms_are_told_apart(field: dict[str, Any], algorithm: str, tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data.pop("clip_range")
        data.update(field)

    metadata = read(rewritten("ppo_discrete", tmp_path / "model.zip", data=change), Options()).snapshot.metadata
    assert metadata["source"]["algorithm"] == algorithm


def test_a_policy_for_action_masks_says_that_it_has_none(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["policy_class"] = policy_class("sb3_contrib.common.maskable.policies", "MaskableActorCriticPolicy")

    found = read(rewritten("ppo_discrete", tmp_path / "model.zip", data=change), Options())
    assert found.snapshot.metadata["source"]["algorithm"] == "MaskablePPO"
    assert any("action masks" in note for note in found.report.notes)


@pytest.mark.parametrize(
    "text",
    [
        "<class 'my_package.Activation'>",
        "<class 'torch.nn.modules.activation.PReLU'>",
        "<function <lambda> at 0x7f0000000000>",
        "functools.partial(<class 'torch.nn.modules.activation.LeakyReLU'>, negative_slope=0.2)",
    ],
)
def test_an_activation_that_is_not_known_is_not_guessed(text: str, tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["policy_kwargs"] = {"activation_fn": text}

    error = refused(rewritten("ppo_discrete", tmp_path / "model.zip", data=change))
    assert error.found == text
    assert "Tanh" in error.expected


def test_a_features_extractor_is_refused(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["policy_kwargs"] = {"features_extractor_class": "<class 'mine.Extractor'>"}

    assert "mine.Extractor" in refused(rewritten("ppo_discrete", tmp_path / "model.zip", data=change)).found


def test_unknown_architecture_is_not_guessed(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        del data["policy_kwargs"]

    assert "policy_kwargs" in refused(rewritten("ppo_discrete", tmp_path / "model.zip", data=change)).expected


def test_parameters_in_an_activation_are_refused(tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        state["mlp_extractor.policy_net.1.weight"] = torch.zeros(1)

    error = refused(rewritten("ppo_discrete", tmp_path / "model.zip", weights=change))
    assert "mlp_extractor.policy_net" in error.subject


def test_weights_that_nothing_takes_are_named(tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        state["extra.weight"] = torch.zeros(1)

    assert refused(rewritten("ppo_discrete", tmp_path / "model.zip", weights=change)).found == "extra.weight"


def test_weights_that_are_missing_are_named(tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        del state["value_net.bias"]

    assert "value_net.bias" in refused(rewritten("ppo_discrete", tmp_path / "model.zip", weights=change)).subject


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ("mlp_extractor.policy_net.0.weight", (4, 9)),
        ("action_net.weight", (7, 4)),
        ("action_net.bias", (3,)),
        ("value_net.weight", (2, 4)),
        ("log_std", (3,)),
    ],
)
def test_weights_that_do_not_fit_the_spaces_are_named(key: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        state[key] = torch.zeros(shape)

    error = refused(rewritten("ppo_box", tmp_path / "model.zip", weights=change))
    assert key.rpartition(".")[0] in error.subject or key in error.subject
    assert str(shape) in error.found
