"""Activations as RLlib names them, and where its stacks of layers put what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.settings import Atoms, activation_of, activations_of, place_of, shape_of
from rlpipe.importers.restricted.values import Name
from rlpipe.snapshot.spaces import Box, Discrete, MultiDiscrete


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("tanh", "tanh"),
        ("ReLU", "relu"),
        ("relu", "relu"),
        ("swish", "silu"),
        ("SiLU", "silu"),
        ("elu", "elu"),
        ("LeakyReLU", "leaky_relu"),
        ("linear", "identity"),
        (None, "identity"),
        (Name("torch.nn.modules.activation", "GELU"), "gelu"),
    ],
)
def test_activations_by_every_name_that_rllib_takes(given: Any, name: str) -> None:
    assert activation_of(given, subject="it") == name


@pytest.mark.parametrize("given", ["softmax", "PReLU", "gelu", 7, ["tanh"]])
def test_other_activations_are_refused(given: Any) -> None:
    with pytest.raises(ForeignFormatError, match="it cannot be imported"):
        activation_of(given, subject="it")


def test_heads_are_named_otherwise_in_older_versions() -> None:
    assert activations_of({}, subject="it") == ("tanh", "relu")
    assert activations_of({"fcnet_activation": "elu", "post_fcnet_activation": "tanh"}, subject="it") == ("elu", "tanh")
    assert activations_of({"head_fcnet_activation": "silu"}, subject="it") == ("tanh", "silu")


def test_a_linear_activation_takes_no_place() -> None:
    assert [place_of("tanh")(index) for index in range(3)] == ["0", "2", "4"]
    assert [place_of("identity")(index) for index in range(3)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("space", "outputs"), [(Discrete(3), 3), (MultiDiscrete(np.array([2, 4])), 6), (Box.uniform(-1, 1, (2,)), 2)]
)
def test_a_shape_counts_what_decides(space: Any, outputs: int) -> None:
    found = shape_of({"num_atoms": 5, "double_q": False}, seen=Box.uniform(-1, 1, (4,)), space=space, subject="it")
    assert (found.features, found.outputs, found.continuous) == (4, outputs, isinstance(space, Box))
    assert (found.atoms, found.double) == (Atoms(count=5, low=-10.0, high=10.0), False)
