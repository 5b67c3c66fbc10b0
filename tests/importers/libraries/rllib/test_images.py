"""Convolutions against torch's own layers, with padding and order as RLlib has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.bodies import read_body
from rlpipe.importers.libraries.rllib.filters import Filter, filter_places, filters_of
from rlpipe.importers.libraries.rllib.images import convolutions
from rlpipe.importers.libraries.rllib.networks import actor_critic
from rlpipe.importers.libraries.rllib.settings import shape_of
from rlpipe.importers.libraries.rllib.weights import Tensors
from rlpipe.snapshot.spaces import Box, Discrete
from tests.importers.rllib_tensors import Array, built, convolution, layers, lstm

IMAGE = Box.uniform(-1, 1, (2, 12, 10))
OBS = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (5, 2, 12, 10)).astype(np.float32))
FILTERS = [[3, 4, 2], [4, [3, 3], [1, 1], "valid"]]
NAME = "encoder.encoder"


def shape(**config: Any) -> Any:
    return shape_of({"conv_filters": FILTERS, **config}, seen=IMAGE, space=Discrete(3), subject="it")


def given(encoder: str = NAME) -> dict[str, Array]:
    return convolution(f"{encoder}.net.0.cnn.1", 2, 3, 4) | convolution(f"{encoder}.net.0.cnn.3", 3, 4, 3)


def features(tensors: dict[str, Array], act: Any = torch.relu) -> torch.Tensor:
    """As TorchCNN computes them: height 12 padded by 1 and 1 to 6, width 10 to 5, channels last when flattened."""
    weight, bias = (
        {place: torch.from_numpy(tensors[f"{NAME}.net.0.cnn.{place}.{part}"]) for place in (1, 3)}
        for part in ("weight", "bias")
    )
    x = act(nn.functional.conv2d(nn.functional.pad(OBS, (1, 1, 1, 1)), weight[1], bias[1], stride=2))
    return act(nn.functional.conv2d(x, weight[3], bias[3])).permute(0, 2, 3, 1).flatten(1)


def test_features_of_images_have_their_channels_last_for_heads() -> None:
    tensors = given() | layers("pi.net.mlp", 4 * 4 * 3, 3) | layers("vf.net.mlp", 48, 1)
    taken = Tensors(tensors, subject="it")
    found = actor_critic(taken, shape())
    taken.require_empty()
    with torch.no_grad():
        made = built(found, IMAGE, Discrete(3)).forward_train({"obs": OBS})
    x = features(tensors).numpy()
    logits = x @ tensors["pi.net.mlp.0.weight"].T + tensors["pi.net.mlp.0.bias"]
    np.testing.assert_allclose(made["logits"], logits, rtol=1e-4, atol=1e-4)
    value = x @ tensors["vf.net.mlp.0.weight"].T + tensors["vf.net.mlp.0.bias"]
    np.testing.assert_allclose(made["value"], value[:, 0], rtol=1e-4, atol=1e-4)


def test_a_memory_behind_an_image_is_fed_in_the_same_order() -> None:
    tokenizer = {name.replace(NAME, f"{NAME}.tokenizer"): array for name, array in given().items()}
    columns = np.tile(np.arange(48, dtype=np.float32), (20, 1))
    tensors = Tensors(tokenizer | lstm(f"{NAME}.lstm", 48, 5) | {f"{NAME}.lstm.weight_ih_l0": columns}, subject="it")
    body = read_body(tensors, NAME, shape())
    tensors.require_empty()
    assert body.config()["before"]["padding"] == [[1, 1, 1, 1], [0, 0, 0, 0]]
    order = np.arange(48).reshape(4, 3, 4).transpose(2, 0, 1).reshape(-1)
    np.testing.assert_array_equal(body.cells["weight_ih_l0"][0], order)


@pytest.mark.parametrize(
    ("sides", "size", "stride", "margins"),
    [
        ((12, 10), 4, 2, (1, 1, 1, 1)),
        ((11, 10), 4, 3, (1, 2, 1, 1)),
        ((10, 10), 1, 2, (-1, 0, -1, 0)),
        ((84, 84), 8, 4, (2, 2, 2, 2)),
        ((7, 7), 3, 1, (1, 1, 1, 1)),
    ],
)
def test_padding_is_tensorflow_s(sides: tuple[int, int], size: int, stride: int, margins: Any) -> None:
    seen = Box.uniform(-1, 1, (2, *sides))
    config = {"conv_filters": [[3, size, stride]]}
    found = convolutions(
        Tensors(convolution("c", 2, 3, size), subject="it"),
        ["c"],
        shape_of(config, seen=seen, space=Discrete(3), subject="it"),
    )
    assert found.padding == (margins,)
    assert found.made == (3, -(-sides[0] // stride), -(-sides[1] // stride))


def test_settings_of_filters_are_read_in_every_form() -> None:
    assert filters_of(FILTERS, (12, 10), subject="it") == (Filter(2, is_padded=True), Filter(1, is_padded=False))
    assert filters_of([(8, (4, 4), np.int64(2), "same")], (9, 9), subject="it") == (Filter(2, is_padded=True),)
    assert [one.stride for one in filters_of(None, (84, 84), subject="it")] == [4, 2, 1]


@pytest.mark.parametrize("wrong", [None, [[3, 4]], [[3, 4, [1, 2]]], [[3, 4, 0]], [[3, 4, 1, "full"]], 7, ["abc"]])
def test_settings_of_filters_that_say_nothing_known_are_refused(wrong: object) -> None:
    with pytest.raises(ForeignFormatError, match="conv_filters of it"):
        filters_of(wrong, (12, 10), subject="it")


def test_places_count_padding_and_activations() -> None:
    filters = filters_of([[1, 2, 1], [1, 2, 1, "valid"], [1, 2, 1]], (9, 9), subject="it")
    assert filter_places(filters, has_activations=True) == ["1", "3", "6"]
    assert filter_places(filters, has_activations=False) == ["1", "2", "4"]


def test_convolutions_over_rows_of_numbers_are_refused() -> None:
    row = shape_of({}, seen=Box.uniform(-1, 1, (4,)), space=Discrete(3), subject="it")
    with pytest.raises(ForeignFormatError, match="convolutions of it"):
        convolutions(Tensors(convolution("c", 2, 3, 4), subject="it"), ["c"], row)


def test_filters_that_the_settings_do_not_name_are_refused() -> None:
    tensors = Tensors(given() | convolution(f"{NAME}.net.0.cnn.5", 4, 4, 3), subject="it")
    with pytest.raises(ForeignFormatError, match=r"net\.0\.cnn of it"):
        read_body(tensors, NAME, shape())
