from __future__ import annotations

import pytest
import torch

from rlpipe.errors import SpecError
from rlpipe.modules.torch.encoders import CNN, MLP, Chain
from rlpipe.modules.torch.q_functions import Fused, QFunction, read_critic

SMALL = MLP(hidden=(3,), activation="tanh")
FUSED = Fused(observation=MLP(hidden=(4,)), actions=SMALL, fusion=MLP(hidden=(5, 6), activation="elu"), after=SMALL)


def test_every_layer_that_fuses_sees_what_the_first_saw() -> None:
    q = QFunction(FUSED, (7,), 2)
    state = q.state_dict()
    assert {name: tuple(value.shape) for name, value in state.items() if name.endswith("weight")} == {
        "encoder.observation.0.weight": (4, 7),
        "encoder.actions.0.weight": (3, 2),
        "encoder.layers.0.weight": (5, 7),
        "encoder.layers.1.weight": (6, 5 + 7),
        "encoder.after.0.weight": (3, 6),
        "q.weight": (1, 3),
    }
    obs, actions = torch.randn(8, 7), torch.randn(8, 2)

    def layer(name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    both = torch.cat(
        [torch.tanh(layer("encoder.actions.0", actions)), torch.tanh(layer("encoder.observation.0", obs))], dim=1
    )
    first = torch.nn.functional.elu(layer("encoder.layers.0", both))
    second = torch.nn.functional.elu(layer("encoder.layers.1", torch.cat([first, both], dim=1)))
    expected = layer("q", torch.tanh(layer("encoder.after.0", second)))[:, 0]
    torch.testing.assert_close(q(obs, actions), expected)


def test_a_chain_of_layers_takes_both_in_one_row() -> None:
    q = QFunction(Chain(links=(SMALL, MLP(hidden=(4,)))), (7,), 2)
    assert q.state_dict()["encoder.0.0.weight"].shape == (3, 9)


def test_a_chain_behind_an_image_is_joined_by_the_action() -> None:
    q = QFunction(Chain(links=(CNN(filters=((2, 3, 2),), hidden=()), SMALL)), (1, 7, 7), 2)
    assert q.q.weight.shape == (1, 3 + 2)
    assert q(torch.randn(4, 1, 7, 7), torch.randn(4, 2)).shape == (4,)


@pytest.mark.parametrize("config", [FUSED, Fused(), SMALL, Fused(observation=CNN(hidden=()))])
def test_a_config_comes_back_from_json(config: object) -> None:
    assert read_critic(config.to_json(), where="critic") == config  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"actions": {"type": "cnn"}}, "other layers"),
        ({"fusion": {"type": "mlp", "hidden": []}}, "other layers"),
        ({"fusion": None}, "no encoder"),
        ({"observation": {"type": "gru"}}, "keeps a memory"),
        ({"fuse": {"type": "mlp"}}, "no field"),
    ],
)
def test_critics_that_are_none_are_refused(fields: dict[str, object], named: str) -> None:
    with pytest.raises(SpecError, match=named):
        read_critic({"type": "fused", **fields}, where="model_config.critic")
