from __future__ import annotations

import numpy as np
import pytest
import torch

from rlpipe.errors import SpecError
from rlpipe.modules.torch.encoders import CNN, MLP, Chain, read_encoder


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


def test_a_cnn_sees_zeros_around_where_it_is_padded() -> None:
    padding = ((0, 1, 2, 3), (0, 0, 0, 0))
    encoder = CNN(filters=((4, 3, 2), (5, 2, 1)), hidden=(), activation="relu", padding=padding).build((3, 9, 8))
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 8))
    state = {name: value.double().numpy() for name, value in encoder.state_dict().items()}
    around = np.pad(x, ((0, 0), (0, 0), (2, 3), (0, 1)))
    hidden = np.maximum(_convolved(around, state["0.weight"], state["0.bias"], 2), 0)
    hidden = np.maximum(_convolved(hidden, state["2.weight"], state["2.bias"], 1), 0)
    found = encoder(torch.tensor(x, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(found, hidden.reshape(2, -1), atol=1e-5)
    assert encoder.out_features == found.shape[1]


def test_an_unpadded_cnn_is_written_as_it_always_was() -> None:
    assert "padding" not in CNN().to_json()


@pytest.mark.parametrize("padding", [[], [[0, 0, 0, 0]], [[0] * 4, [0] * 3], [[0] * 4, [0.5] * 4], 1, [1, 1]])
def test_padding_that_fits_no_filters_is_refused(padding: object) -> None:
    with pytest.raises(SpecError, match="padding"):
        read_encoder({"type": "cnn", "filters": [[4, 3, 1], [4, 3, 1]], "padding": padding}, where="encoder")


def test_a_chain_is_its_links_one_behind_the_other() -> None:
    chain = Chain(links=(CNN(filters=((4, 3, 2),), hidden=()), MLP(hidden=(5,), activation="elu"))).build((3, 9, 8))
    assert list(chain.state_dict()) == ["0.0.weight", "0.0.bias", "1.0.weight", "1.0.bias"]
    assert chain.out_features == 5
    x = torch.randn(2, 3, 9, 8)
    first, second = chain.children()
    torch.testing.assert_close(chain(x), second(first(x)))


@pytest.mark.parametrize(
    "links", [[], {}, None, [{"type": "mlp"}, {"type": "cnn"}], [{"type": "gru"}], [{"type": "chain", "links": []}]]
)
def test_links_that_are_none_are_refused(links: object) -> None:
    with pytest.raises(SpecError, match="chain"):
        read_encoder({"type": "chain", "links": links}, where="encoder")


@pytest.mark.parametrize(
    "config",
    [
        MLP(hidden=(3,), activation="gelu"),
        CNN(hidden=()),
        CNN(filters=((4, 3, 1),), padding=((1, 0, 2, 0),)),
        Chain(links=(CNN(), MLP(hidden=(3,)))),
    ],
)
def test_a_config_comes_back_from_json(config: MLP | CNN | Chain) -> None:
    assert read_encoder(config.to_json(), where="encoder") == config


def test_the_default_cnn_is_the_one_of_atari() -> None:
    encoder = read_encoder({"type": "cnn"}, where="encoder").build((4, 84, 84))
    assert encoder(torch.zeros(1, 4, 84, 84)).shape == (1, 512)


@pytest.mark.parametrize("filters", [[[4, 3]], [[4, 3, 0]], [3], 3])
def test_filters_that_are_none_are_refused(filters: object) -> None:
    with pytest.raises(SpecError):
        read_encoder({"type": "cnn", "filters": filters}, where="encoder")
