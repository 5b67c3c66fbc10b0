"""Networks of the old stack: what they are made of, and what is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.old_networks import network_of
from rlpipe.importers.libraries.rllib.weights import Tensors
from rlpipe.snapshot.spaces import Box, Discrete
from tests.importers.rllib_tensors import (
    CHOICES,
    OBS,
    PAIR,
    SEEN,
    Array,
    built,
    convolution,
    drawn,
    layers,
    linear,
    lstm,
)

MODEL = {"fcnet_hiddens": [5, 6], "fcnet_activation": "tanh"}
BODY = layers("_hidden_layers", 4, 5, 6, step=1, ending="._model.0")
VALUE = linear("_value_branch._model.0", 6, 1)
IMAGE = Box.uniform(-1, 1, (2, 12, 12))


def read(given: dict[str, Array], space: Any = CHOICES, seen: Any = SEEN, **config: Any) -> Any:
    tensors = Tensors(given, subject="it")
    found = network_of(tensors, {"model": MODEL, **config}, seen=seen, space=space)
    tensors.require_empty()
    return found


def body() -> Array:
    x = OBS
    for index in (0, 1):
        x = np.tanh(
            x @ BODY[f"_hidden_layers.{index}._model.0.weight"].T + BODY[f"_hidden_layers.{index}._model.0.bias"]
        )
    return x


def head(given: dict[str, Array], name: str, x: Array) -> Array:
    found: Array = x @ given[f"{name}._model.0.weight"].T + given[f"{name}._model.0.bias"]
    return found


def outputs(found: Any, space: Any, seen: Any = SEEN, obs: Array = OBS) -> dict[str, Array]:
    with torch.no_grad():
        made = built(found, seen, space).forward_inference({"obs": torch.from_numpy(obs)})
    return {name: value.numpy() for name, value in made.items()}


def test_a_fully_connected_policy_is_a_body_and_logits() -> None:
    given = BODY | VALUE | linear("_logits._model.0", 6, 3)
    found = read(given)
    assert not found.inference_only
    np.testing.assert_allclose(outputs(found, CHOICES)["logits"], head(given, "_logits", body()), rtol=1e-4, atol=1e-5)


def test_layers_of_dqn_s_heads_have_relu_whatever_the_body_has() -> None:
    given = BODY | VALUE
    for prefix, letter, count in (("advantage_module", "A", 3), ("value_module", "V", 1)):
        given |= linear(f"{prefix}.dueling_{letter}_0._model.0", 6, 4) | linear(f"{prefix}.{letter}._model.0", 4, count)
    found = read(given, dueling=True, num_atoms=1)
    streams = [
        head(given, f"{p}.{le}", np.maximum(head(given, f"{p}.dueling_{le}_0", body()), 0))
        for p, le in (("advantage_module", "A"), ("value_module", "V"))
    ]
    expected = streams[1] + streams[0] - streams[0].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(outputs(found, CHOICES)["q"], expected, rtol=1e-4, atol=1e-5)
    assert found.inference_only


def test_dqn_without_hiddens_has_its_values_in_logits() -> None:
    given = BODY | VALUE | linear("_logits._model.0", 6, 3)
    found = read(given, dueling=False, num_atoms=1)
    assert found.output == "q"
    np.testing.assert_allclose(outputs(found, CHOICES)["q"], head(given, "_logits", body()), rtol=1e-4, atol=1e-5)


def test_sac_is_its_actor() -> None:
    actor = {f"action_model.{name}": array for name, array in (BODY | VALUE | linear("_logits._model.0", 6, 4)).items()}
    critic = {f"q_net.{name}": array for name, array in BODY.items()}
    found = read(actor | critic | {"log_alpha": drawn(1), "target_entropy": drawn(1)}, PAIR, policy_model_config=MODEL)
    plain = {name.removeprefix("action_model."): array for name, array in actor.items()}
    np.testing.assert_allclose(
        outputs(found, PAIR)["mean"], head(plain, "_logits", body())[:, :2], rtol=1e-4, atol=1e-5
    )


def test_a_memory_stands_between_body_and_logits() -> None:
    given = BODY | lstm("lstm", 6, 3) | linear("_logits_branch._model.0", 3, 3) | linear("_value_branch._model.0", 3, 1)
    unused = layers("_value_branch_separate", 4, 5, step=1, ending="._model.0")
    found = read(given | unused)
    assert found.memory == {f"shared/{name}": {"shape": [1, 3], "dtype": "float32"} for name in ("c", "h")}


@pytest.mark.parametrize("is_last", [False, True])
def test_the_last_layer_behind_an_image_is_linear_unless_it_stands_for_logits(is_last: bool) -> None:
    given = convolution("_convs.0._model.1", 2, 3, 4) | convolution("_convs.1._model.0", 3, 4, 6)
    given |= linear("_convs.3._model.0", 4, 5) | linear("_logits._model.0", 5, 3)
    given |= linear("_value_branch._model.0", 5, 1)
    model = {"conv_filters": [[3, [4, 4], 2], [4, [6, 6], 1]], "post_fcnet_hiddens": [5], "no_final_linear": is_last}
    found = read(given, seen=IMAGE, model=model)
    assert found.model_config["shared"]["links"][1]["activation"] == ("relu" if is_last else "identity")
    obs = np.random.default_rng(0).uniform(-1, 1, (3, 2, 12, 12)).astype(np.float32)
    x = torch.nn.functional.pad(torch.from_numpy(obs), (1, 1, 1, 1))
    for place, stride in (("0._model.1", 2), ("1._model.0", 1)):
        weight, bias = (torch.from_numpy(given[f"_convs.{place}.{part}"]) for part in ("weight", "bias"))
        x = torch.relu(torch.nn.functional.conv2d(x, weight, bias, stride=stride))
    after = head(given, "_convs.3", x.flatten(1).numpy())
    expected = head(given, "_logits", np.maximum(after, 0) if is_last else after)
    np.testing.assert_allclose(outputs(found, CHOICES, IMAGE, obs)["logits"], expected, rtol=1e-4, atol=1e-4)


REFUSED: dict[str, tuple[dict[str, Array], dict[str, Any], str]] = {
    "attention": ({"gtrxl.x.weight": drawn(2)}, {}, "use_attention"),
    "several parts": ({"cnns.0.weight": drawn(2)}, {}, "ComplexInputNetwork"),
    "deterministic": ({"policy_model.action_0.weight": drawn(2)}, {}, "DDPG or TD3"),
    "noisy": ({"advantage_module.A.sigma_w": drawn(2)}, {"dueling": True}, "noisy"),
    "past actions": (lstm("lstm", 6, 3), {"model": {**MODEL, "lstm_use_prev_action": True}}, "lstm_use_prev_action"),
    "past rewards": (lstm("lstm", 6, 3), {"model": {**MODEL, "lstm_use_prev_reward": True}}, "lstm_use_prev_reward"),
    "custom": ({"net.weight": drawn(2)}, {"model": {**MODEL, "custom_model": "mine"}}, "custom_model"),
    "R2D2": (lstm("lstm", 6, 3) | {"advantage_module.x": drawn(2)}, {"dueling": True}, "R2D2"),
    "dueling without hiddens": (linear("_logits._model.0", 6, 3), {"dueling": True}, "without hiddens"),
    "atoms without hiddens": (
        linear("_logits._model.0", 6, 3),
        {"dueling": False, "num_atoms": 4},
        "without hiddens",
    ),
    "other": ({"mine.weight": drawn(2)}, {}, "no policy of the old stack"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_imported_is_refused_by_name(name: str) -> None:
    given, config, named = REFUSED[name]
    with pytest.raises(ForeignFormatError, match=named):
        read(BODY | given, **config)


def test_an_action_space_of_another_size_is_refused() -> None:
    for given, config in (
        (linear("_logits._model.0", 6, 4), {}),
        (linear("_logits._model.0", 6, 4), {"dueling": False}),
    ):
        with pytest.raises(ForeignFormatError, match="as the action space asks for"):
            read(BODY | VALUE | given, Discrete(3), **config)
