from __future__ import annotations

import numpy as np
import pytest
import torch

from rlpipe.errors import SpecError
from rlpipe.modules.torch.encoders import CNN, MLP, read_encoder


def test_a_mlp_is_the_formula() -> None:
    encoder = MLP(hidden=(5, 4), activation="tanh").build((2, 3))
    x = np.random.default_rng(0).normal(size=(7, 2, 3))
    state = {name: value.double().numpy() for name, value in encoder.state_dict().items()}
    assert list(state) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    hidden = np.tanh(x.reshape(7, 6) @ state["0.weight"].T + state["0.bias"])
    expected = np.tanh(hidden @ state["2.weight"].T + state["2.bias"])
    np.testing.assert_allclose(encoder(torch.tensor(x, dtype=torch.float32)).detach().numpy(), expected, atol=1e-6)
    assert encoder.out_features == 4


def test_without_layers_it_is_the_identity() -> None:
    encoder = MLP(hidden=()).build((2, 3))
    x = torch.randn(5, 2, 3)
    assert torch.equal(encoder(x), x.flatten(1))
    assert not encoder.state_dict()
    assert encoder.out_features == 6


def test_a_cnn_is_convolutions_then_linear_layers() -> None:
    encoder = CNN(filters=((4, 3, 2), (5, 2, 1)), hidden=(6,), activation="relu").build((3, 9, 8))
    assert list(encoder.state_dict()) == [
        *(f"{layer}.{name}" for layer in (0, 2, 5) for name in ("weight", "bias")),
    ]
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 8))
    state = {name: value.double().numpy() for name, value in encoder.state_dict().items()}
    hidden = np.maximum(_convolved(x, state["0.weight"], state["0.bias"], 2), 0)
    hidden = np.maximum(_convolved(hidden, state["2.weight"], state["2.bias"], 1), 0)
    expected = np.maximum(hidden.reshape(2, -1) @ state["5.weight"].T + state["5.bias"], 0)
    np.testing.assert_allclose(encoder(torch.tensor(x, dtype=torch.float32)).detach().numpy(), expected, atol=1e-5)


def _convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    size = weight.shape[2]
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]
    found: np.ndarray = np.einsum("bchwij,ocij->bohw", windows, weight) + bias[:, None, None]
    return found


@pytest.mark.parametrize("config", [MLP(hidden=(3,), activation="gelu"), CNN(hidden=())])
def test_a_config_comes_back_from_json(config: MLP | CNN) -> None:
    assert read_encoder(config.to_json(), where="encoder") == config


def test_the_default_cnn_is_the_one_of_atari() -> None:
    encoder = read_encoder({"type": "cnn"}, where="encoder").build((4, 84, 84))
    assert encoder(torch.zeros(1, 4, 84, 84)).shape == (1, 512)


@pytest.mark.parametrize("filters", [[[4, 3]], [[4, 3, 0]], [3], 3])
def test_filters_that_are_none_are_refused(filters: object) -> None:
    with pytest.raises(SpecError):
        read_encoder({"type": "cnn", "filters": filters}, where="encoder")
