from __future__ import annotations

import numpy as np
import torch
from torch import nn

from rlpipe.exporters.rounding import perturbed

OBS = torch.linspace(-2, 2, 20).reshape(5, 4)


def spread(module: nn.Module, relative: float = 2**-10) -> np.ndarray:
    with torch.no_grad():
        truth = module(OBS).numpy()
        draws = [draw["action"] for draw in perturbed(lambda: {"action": module(OBS).numpy()}, relative)]
    return np.abs(np.stack(draws) - truth).max(axis=0)


def test_sums_move_by_about_the_relative_amount() -> None:
    layer = nn.Linear(4, 3)
    found = spread(layer)
    terms = OBS.abs() @ layer.weight.detach().abs().T + layer.bias.detach().abs()
    assert (found > 0).all()
    assert (found <= 2.1 * 2**-10 * terms.numpy()).all()


def test_they_move_inside_larger_networks_too() -> None:
    network = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(6, 2))
    assert (spread(network) > 0).all()


def test_a_normaliser_does_not_move() -> None:
    class Normaliser(nn.Module):
        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            return ((obs - 1000.0) / 0.1).clamp(-10, 10)

    assert not spread(Normaliser()).any()


def test_it_is_the_same_every_time_and_leaves_torchs_generator_alone() -> None:
    layer = nn.Linear(4, 3)
    state = torch.get_rng_state()
    assert (spread(layer) == spread(layer)).all()
    assert (torch.get_rng_state() == state).all()


def test_inside_inference_mode() -> None:
    layer = nn.Linear(4, 3)

    def compute() -> dict[str, np.ndarray]:
        with torch.inference_mode():
            return {"action": layer(OBS).numpy()}

    truth = compute()["action"]
    assert any((draw["action"] != truth).any() for draw in perturbed(compute, 1e-3))
