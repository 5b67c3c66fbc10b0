"""SAC against the formulas, written out in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.soft_networks import soft_actor_critic
from rlpipe.importers.libraries.rllib.weights import Tensors
from tests.importers.rllib_tensors import (
    CHOICES,
    OBS,
    PAIR,
    SEEN,
    Array,
    built,
    drawn,
    layers,
    linear,
    lstm,
    relu,
    shape,
    through,
)

ACTIONS = np.random.default_rng(2).uniform(-1, 1, (7, 2)).astype(np.float32)
ACTOR = layers("pi_encoder.net.mlp", 4, 5, 6) | layers("pi.net.mlp", 6, 3, 4)
CHOOSER = layers("pi_encoder.net.mlp", 4, 5, 6) | layers("pi.net.mlp", 6, 3, 3)


def fused(name: str, *fusion: int) -> dict[str, Array]:
    found = layers(f"{name}_encoder.base_encoders.obs.net.mlp", 4, 5, 6)
    found |= layers(f"{name}_encoder.base_encoders.actions.net.mlp", 2, 5, 6)
    before = 0
    for index, width in enumerate(fusion):
        found |= linear(f"{name}_encoder.fusion_layers.{index}", before + 12, width)
        before = width
    return found | linear(f"{name}_encoder.output_layer", before + 12, 6) | layers(f"{name}.net.mlp", 6, 3, 1)


def value(given: dict[str, Array], name: str, *fusion: int) -> Array:
    encoders = f"{name}_encoder.base_encoders"
    parts = [through(given, f"{encoders}.{part}.net.mlp", x) for part, x in (("actions", ACTIONS), ("obs", OBS))]
    both = np.concatenate(parts, axis=1)
    x = both[:, :0]
    for layer in (*(f"fusion_layers.{index}" for index in range(len(fusion))), "output_layer"):
        where = f"{name}_encoder.{layer}"
        x = np.concatenate([x, both], axis=1) @ given[f"{where}.weight"].T + given[f"{where}.bias"]
        x = x / (1 + np.exp(-x))
    found: Array = through(given, f"{name}.net.mlp", x, relu, last=False)[:, 0]
    return found


def trained(found: Any, space: Any, **batch: Array) -> dict[str, Array]:
    given = {name: torch.from_numpy(array) for name, array in {"obs": OBS, **batch}.items()}
    with torch.no_grad():
        return {name: array.numpy() for name, array in built(found, SEEN, space).forward_train(given).items()}


@pytest.mark.parametrize("fusion", [(), (4,), (4, 7)])
@pytest.mark.parametrize("prefix", ["target_", "_target_"])
def test_critics_fuse_what_they_see_and_what_is_done(fusion: tuple[int, ...], prefix: str) -> None:
    names = ("qf", "qf_twin")
    given = dict(ACTOR)
    for name in names:
        given |= fused(name, *fusion) | fused(prefix + name, *fusion)
    tensors = Tensors(given, subject="it")
    found = soft_actor_critic(tensors, shape(PAIR, fusionnet_activation="silu"))
    tensors.require_empty()
    assert not found.inference_only
    made = trained(found, PAIR, actions=ACTIONS)
    for index, name in enumerate(names):
        np.testing.assert_allclose(made["critic_q"][:, index], value(given, name, *fusion), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            made["target_q"][:, index], value(given, prefix + name, *fusion), rtol=1e-4, atol=1e-5
        )


def test_up_to_ray_2_40_critics_saw_one_row() -> None:
    given = dict(ACTOR)
    for name in ("qf", "target_qf"):
        given |= layers(f"{name}_encoder.net.mlp", 6, 5, 6) | layers(f"{name}.net.mlp", 6, 3, 1)
    found = soft_actor_critic(Tensors(given, subject="it"), shape(PAIR))
    assert found.model_config["n_critics"] == 1
    row = np.concatenate([OBS, ACTIONS], axis=1)
    expected = through(given, "qf.net.mlp", through(given, "qf_encoder.net.mlp", row), relu, last=False)
    np.testing.assert_allclose(trained(found, PAIR, actions=ACTIONS)["critic_q"], expected, rtol=1e-4, atol=1e-5)


def test_over_choices_critics_value_every_one() -> None:
    given = dict(CHOOSER)
    for name in ("qf", "qf_twin", "target_qf", "target_qf_twin"):
        given |= layers(f"{name}_encoder.net.mlp", 4, 5, 6) | layers(f"{name}.net.mlp", 6, 3, 3)
    tensors = Tensors(given, subject="it")
    made = trained(soft_actor_critic(tensors, shape(CHOICES)), CHOICES)
    tensors.require_empty()
    latent = through(given, "qf_twin_encoder.net.mlp", OBS)
    expected = through(given, "qf_twin.net.mlp", latent, relu, last=False)
    np.testing.assert_allclose(made["critic_q"][:, 1], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        made["logits"],
        through(given, "pi.net.mlp", through(given, "pi_encoder.net.mlp", OBS), relu, last=False),
        rtol=1e-4,
        atol=1e-5,
    )


def test_critics_without_targets_are_left_out_and_named() -> None:
    tensors = Tensors(ACTOR | fused("qf", 4), subject="it")
    assert soft_actor_critic(tensors, shape(PAIR)).inference_only
    tensors.require_empty()
    assert "qf_encoder.output_layer.weight" in tensors.skipped


def test_a_free_deviation_is_a_layer_that_sees_nothing() -> None:
    given = layers("pi_encoder.net.mlp", 4, 5) | layers("pi.net.mlp", 5, 2) | {"pi.log_std": drawn(2).clip(-1, 1)}
    made = trained(soft_actor_critic(Tensors(given, subject="it"), shape(PAIR)), PAIR)
    np.testing.assert_allclose(made["log_std"], np.tile(given["pi.log_std"], (7, 1)), atol=1e-6)


def test_values_of_iql_and_quantiles_of_tqc_are_left_out() -> None:
    others = layers("vf.net.mlp", 6, 1) | layers("vf_encoder.net.mlp", 4, 6) | layers("qf_heads.0.net.mlp", 6, 9)
    tensors = Tensors(ACTOR | others, subject="it")
    assert soft_actor_critic(tensors, shape(PAIR)).inference_only
    tensors.require_empty()
    assert set(tensors.skipped) == set(others)


def test_a_memory_is_refused() -> None:
    given = lstm("pi_encoder.lstm", 4, 5) | layers("pi.net.mlp", 5, 4)
    with pytest.raises(ForeignFormatError, match="a recurrent SAC"):
        soft_actor_critic(Tensors(given, subject="it"), shape(PAIR))
