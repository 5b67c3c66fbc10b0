"""Actors and critics against the formulas, written out in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.networks import actor_critic, behaviour_cloning, broken_keys
from rlpipe.importers.libraries.rllib.weights import Tensors
from rlpipe.snapshot.spaces import Dict, Discrete, Tuple
from tests.importers.rllib_tensors import CHOICES, OBS, PAIR, SEEN, Array, built, drawn, layers, relu, shape, through

MIXED = Dict({"b": Tuple((Discrete(3), PAIR)), "a": Discrete(2)})


def outputs(module: Any) -> dict[str, Array]:
    with torch.no_grad():
        return {name: value.numpy() for name, value in module.forward_train({"obs": torch.from_numpy(OBS)}).items()}


def test_a_shared_encoder_feeds_both_heads() -> None:
    given = layers("encoder.encoder.net.mlp", 4, 5, 6) | layers("pi.net.mlp", 6, 3, 3) | layers("vf.net.mlp", 6, 3, 1)
    tensors = Tensors(given, subject="it")
    found = actor_critic(tensors, shape(CHOICES))
    tensors.require_empty()
    made = outputs(built(found, SEEN, CHOICES))
    latent = through(given, "encoder.encoder.net.mlp", OBS)
    np.testing.assert_allclose(
        made["logits"], through(given, "pi.net.mlp", latent, relu, last=False), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        made["value"], through(given, "vf.net.mlp", latent, relu, last=False)[:, 0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("free", [False, True])
def test_separate_encoders_keep_the_activations_of_heads(free: bool) -> None:
    rows = 2 if free else 4
    given = layers("encoder.actor_encoder.net.mlp", 4, 5) | layers("encoder.critic_encoder.net.mlp", 4, 5)
    given |= layers("pi.net.mlp", 5, 3, rows) | layers("vf.net.mlp", 5, 3, 1)
    given |= {"pi.log_std": drawn(2)} if free else {}
    bound = {"pi.log_std_clip_param_const": np.ones(1, np.float32)}
    tensors = Tensors(given | bound, subject="it")
    found = actor_critic(tensors, shape(PAIR, fcnet_activation="elu", head_fcnet_activation="relu"))
    tensors.require_empty()
    assert list(tensors.skipped) == list(bound)
    made = outputs(built(found, SEEN, PAIR))
    elu = lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))  # noqa: E731 - a formula
    latent = through(given, "encoder.actor_encoder.net.mlp", OBS, elu)
    decided = through(given, "pi.net.mlp", latent, relu, last=False)
    np.testing.assert_allclose(made["mean"], decided[:, :2], rtol=1e-4, atol=1e-5)
    spread = np.tile(given["pi.log_std"], (7, 1)) if free else decided[:, 2:]
    np.testing.assert_allclose(made["log_std"], spread, rtol=1e-4, atol=1e-5)
    critic = through(given, "encoder.critic_encoder.net.mlp", OBS, elu)
    np.testing.assert_allclose(
        made["value"], through(given, "vf.net.mlp", critic, relu, last=False)[:, 0], rtol=1e-4, atol=1e-5
    )


def test_without_a_critic_it_acts_alone() -> None:
    given = layers("encoder.actor_encoder.net.mlp", 4, 5) | layers("pi.net.mlp", 5, 3)
    found = actor_critic(Tensors(given, subject="it"), shape(CHOICES))
    assert found.inference_only
    assert not any(key.startswith(found.training) for key in found.entries)
    latent = through(given, "encoder.actor_encoder.net.mlp", OBS)
    made = built(found, SEEN, CHOICES)
    with torch.no_grad():
        logits = made.forward_inference({"obs": torch.from_numpy(OBS)})["logits"].numpy()
    np.testing.assert_allclose(logits, through(given, "pi.net.mlp", latent, last=False), rtol=1e-4, atol=1e-5)


def test_half_a_critic_is_left_out_and_named() -> None:
    given = layers("encoder.actor_encoder.net.mlp", 4, 5) | layers("pi.net.mlp", 5, 3) | layers("vf.net.mlp", 5, 1)
    tensors = Tensors(given, subject="it")
    assert actor_critic(tensors, shape(CHOICES)).inference_only
    assert set(tensors.skipped) == {"vf.net.mlp.0.weight", "vf.net.mlp.0.bias"}


def test_an_actor_that_was_cloned_has_names_of_its_own() -> None:
    given = layers("_encoder.net.mlp", 4, 5) | layers("_pi_head.net.mlp", 5, 3)
    tensors = Tensors(given, subject="it")
    found = behaviour_cloning(tensors, shape(CHOICES))
    tensors.require_empty()
    assert found.inference_only
    assert found.output == "logits"


def test_parts_of_an_action_are_rows_behind_each_other() -> None:
    given = layers("encoder.encoder.net.mlp", 4, 5) | layers("pi.net.mlp", 5, 2 + 3 + 4) | layers("vf.net.mlp", 5, 1)
    found = actor_critic(Tensors(given, subject="it"), shape(MIXED))
    made = outputs(built(found, SEEN, MIXED))
    decided = through(given, "pi.net.mlp", through(given, "encoder.encoder.net.mlp", OBS), last=False)
    np.testing.assert_allclose(made["logits"], decided[:, :7], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made["log_std"], decided[:, 7:], rtol=1e-4, atol=1e-5)


def test_appo_s_copy_of_the_policy_is_left_out() -> None:
    given = layers("encoder.encoder.net.mlp", 4, 5) | layers("pi.net.mlp", 5, 3) | layers("vf.net.mlp", 5, 1)
    old = layers("_old_encoder.encoder.net.mlp", 4, 5) | layers("_old_pi.net.mlp", 5, 3)
    tensors = Tensors(given | old, subject="it")
    actor_critic(tensors, shape(CHOICES))
    tensors.require_empty()
    assert set(tensors.skipped) == set(old)


@pytest.mark.parametrize("rows", [2, 4, 8])
def test_heads_of_another_action_space_are_refused(rows: int) -> None:
    given = layers("encoder.encoder.net.mlp", 4, 5) | layers("pi.net.mlp", 5, rows) | layers("vf.net.mlp", 5, 1)
    for space in (CHOICES, MIXED):
        with pytest.raises(ForeignFormatError, match="as the action space asks for"):
            actor_critic(Tensors(given, subject="it"), shape(space))


def test_weights_that_are_not_finite_are_named() -> None:
    assert broken_keys({"a": np.ones(2), "b": np.array([1.0, np.nan]), "c": np.array([np.inf])}) == ("b", "c")
