"""Networks of any size, built of torch's own layers and saved in the layouts of versions 3 and 5."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rlpipe.checkpoint.restore import build
from rlpipe.importers import recognise
from rlpipe.importers.libraries.rsl_rl import Options, read

ACTIVATIONS = {
    "elu": nn.ELU,
    "lrelu": nn.LeakyReLU,
    "swish": nn.SiLU,
    "tanh": nn.Tanh,
    "crelu": nn.CELU,
    "mish": nn.Mish,
}


@dataclass(frozen=True)
class Shape:
    inputs: int
    hidden: list[int]
    actions: int
    memory: str
    layers: int
    activation: str
    is_normalised: bool
    is_new: bool
    seed: int


SHAPES = st.builds(
    Shape,
    inputs=st.integers(1, 5),
    hidden=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    actions=st.integers(1, 4),
    memory=st.sampled_from(["", "lstm", "gru"]),
    layers=st.integers(1, 3),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    is_normalised=st.booleans(),
    is_new=st.booleans(),
    seed=st.integers(0, 2**16),
)


class Reference(nn.Module):
    """What the library computes, of torch's own parts."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        torch.manual_seed(shape.seed)
        self.shape = shape
        width = 4 if shape.memory else shape.inputs
        self.rnn = {"lstm": nn.LSTM, "gru": nn.GRU, "": nn.Identity}[shape.memory](shape.inputs, 4, shape.layers)
        layers: list[nn.Module] = []
        for size in shape.hidden:
            layers += [nn.Linear(width, size), ACTIVATIONS[shape.activation]()]
            width = size
        self.mlp = nn.Sequential(*layers, nn.Linear(width, shape.actions))
        self.mean, self.std = torch.randn(1, shape.inputs) * 10, torch.rand(1, shape.inputs) * 5
        self.kept: Any = None

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        x = (observations - self.mean) / (self.std + 1e-2) if self.shape.is_normalised else observations
        if self.shape.memory:
            x, self.kept = self.rnn(x.unsqueeze(0), self.kept)
            x = x.squeeze(0)
        actions: torch.Tensor = self.mlp(x)
        return actions

    def content(self) -> dict[str, Any]:
        """As a runner saves it."""
        names = ("mlp", "rnn.rnn", "obs_normalizer", "distribution.std_param")
        names = names if self.shape.is_new else ("actor", "memory_a.rnn", "actor_obs_normalizer", "std")
        tensors = {f"{names[0]}.{name}": value for name, value in self.mlp.state_dict().items()}
        tensors |= {f"{names[1]}.{name}": value for name, value in self.rnn.state_dict().items()}
        if self.shape.is_normalised:
            statistics = {"_mean": self.mean, "_var": self.std.square(), "_std": self.std, "count": torch.tensor(7)}
            tensors |= {f"{names[2]}.{name}": value for name, value in statistics.items()}
        tensors[names[3]] = torch.ones(self.shape.actions)
        rest = {"optimizer_state_dict": {"state": {}, "param_groups": []}, "iter": 3, "infos": None}
        return {"actor_state_dict" if self.shape.is_new else "model_state_dict": tensors, **rest}


@given(SHAPES)
@settings(max_examples=40, deadline=None)
def test_an_imported_policy_computes_what_torch_computes(shape: Shape) -> None:
    reference = Reference(shape)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model_3.pt"
        torch.save(reference.content(), path)
        assert recognise(path) == "rsl_rl"
        activation = {"crelu": "celu"}.get(shape.activation, shape.activation)
        policy: Any = build(read(path, Options(activation=activation)).snapshot)
    state = None
    for observations in 10 * torch.randn(5, 3, shape.inputs):
        step = policy.step(observations.numpy(), state)
        state = step.state
        with torch.no_grad():
            expected = reference(observations).numpy()
        np.testing.assert_allclose(step.actions, expected, rtol=1e-4, atol=1e-4)
