"""DQN against the formulas, written out in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.importers.libraries.rllib.networks import Network
from rlpipe.importers.libraries.rllib.value_networks import q_network, rainbow
from rlpipe.importers.libraries.rllib.weights import Tensors
from tests.importers.rllib_tensors import CHOICES, OBS, SEEN, Array, built, layers, relu, shape, through

ATOMS = {"num_atoms": 5, "v_min": -1.0, "v_max": 3.0}
SUPPORT = np.linspace(-1.0, 3.0, 5)


def module(outputs: int, *, dueling: bool, targets: bool = False) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for prefix in ("", "_target_") if targets else ("",):
        found |= layers(f"{prefix}encoder.net.mlp", 4, 6, 5) | layers(f"{prefix}af.net.mlp", 5, 3, outputs)
        found |= layers(f"{prefix}vf.net.mlp", 5, 3, 1) if dueling else {}
    return found


def q_of(network: Network, *, key: str = "q") -> Array:
    made = built(network, SEEN, CHOICES)
    given = torch.from_numpy(OBS)
    with torch.no_grad():
        found: Array = made.forward_train({"obs": given, "next_obs": given} if key != "q" else {"obs": given})[
            key
        ].numpy()
    return found


def advantages(given: dict[str, Array], prefix: str = "") -> tuple[Array, Array]:
    latent = through(given, f"{prefix}encoder.net.mlp", OBS)
    return latent, through(given, f"{prefix}af.net.mlp", latent, relu, last=False)


def mean_of(logits: Array) -> Array:
    weights = np.exp(logits.reshape(7, 3, 5).astype(np.float64))
    found: Array = (weights / weights.sum(axis=2, keepdims=True) * SUPPORT).sum(axis=2)
    return found


def test_plain_values_are_the_head_s() -> None:
    given = module(3, dueling=False)
    tensors = Tensors(given, subject="it")
    found = q_network(tensors, shape(CHOICES))
    tensors.require_empty()
    assert found.inference_only
    np.testing.assert_allclose(q_of(found), advantages(given)[1], rtol=1e-4, atol=1e-5)


def test_dueling_values_are_centred_advantages_over_a_value_in_the_target_too() -> None:
    given = module(3, dueling=True, targets=True)
    found = q_network(Tensors(given, subject="it"), shape(CHOICES))
    assert not found.inference_only
    for key, prefix in (("q", ""), ("next_target_q", "_target_")):
        latent, a = advantages(given, prefix)
        v = through(given, f"{prefix}vf.net.mlp", latent, relu, last=False)
        np.testing.assert_allclose(q_of(found, key=key), v + a - a.mean(axis=1, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dueling", [False, True])
def test_atoms_are_a_distribution_that_one_value_does_not_change(dueling: bool) -> None:
    given = module(15, dueling=dueling)
    tensors = Tensors(given, subject="it")
    found = q_network(tensors, shape(CHOICES, **ATOMS))
    tensors.require_empty()
    assert bool(tensors.skipped) is dueling
    np.testing.assert_allclose(q_of(found), mean_of(advantages(given)[1]), rtol=1e-4, atol=1e-5)


def test_before_ray_2_41_atoms_were_centred_over_actions() -> None:
    given = module(15, dueling=True)
    found = rainbow(Tensors(given, subject="it"), shape(CHOICES, **ATOMS))
    logits = advantages(given)[1].reshape(7, 3, 5)
    np.testing.assert_allclose(q_of(found), mean_of(logits - logits.mean(axis=1, keepdims=True)), rtol=1e-4, atol=1e-5)
    plain = module(15, dueling=False)
    found = rainbow(Tensors(plain, subject="it"), shape(CHOICES, **ATOMS))
    np.testing.assert_allclose(q_of(found), mean_of(advantages(plain)[1]), rtol=1e-4, atol=1e-5)


def test_the_last_layer_of_a_noisy_encoder_has_the_activation_of_heads() -> None:
    given = module(3, dueling=False)
    noisy = {f"{name}_mu": array for name, array in given.items()}
    noisy |= {f"{name}_{kind}": array for name, array in given.items() for kind in ("sigma", "epsilon")}
    found = rainbow(Tensors(noisy, subject="it"), shape(CHOICES))
    first = np.tanh(OBS @ given["encoder.net.mlp.0.weight"].T + given["encoder.net.mlp.0.bias"])
    latent = relu(first @ given["encoder.net.mlp.2.weight"].T + given["encoder.net.mlp.2.bias"])
    np.testing.assert_allclose(
        q_of(found), through(given, "af.net.mlp", latent, relu, last=False), rtol=1e-4, atol=1e-5
    )


def test_heads_keep_an_activation_of_their_own() -> None:
    def config(**settings: Any) -> Any:
        return q_network(Tensors(module(3, dueling=False), subject="it"), shape(CHOICES, **settings)).model_config

    assert config()["head_activation"] == "relu"
    assert "head_activation" not in config(fcnet_activation="relu")
