from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlpipe.errors import SpecError
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.passes import Step
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.snapshot.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Text
from rlpipe.snapshot.state import arrays
from tests.conformance.module_suite import Case, ModuleSuite

ROW = Box.uniform(-np.inf, np.inf, (5,))
IMAGE = Box.uniform(0, 1, (3, 20, 20))
TRAINING = ("vf/", "encoder/critic_encoder/")
SMALL = {"type": "mlp", "hidden": [7, 6], "activation": "elu"}
TINY_LSTM = {"type": "lstm", "hidden_size": 4, "num_layers": 2}
TINY_GRU = {"type": "gru", "hidden_size": 3, "before": SMALL, "after": {"type": "mlp", "hidden": [5]}}
TINY_CNN = {"type": "cnn", "filters": [[4, 5, 3], [6, 3, 1]], "hidden": [8]}


class TestPPO(ModuleSuite):
    module_class = "rlpipe.modules.torch.ppo.PPOModule"

    @staticmethod
    def cases() -> list[Case]:
        return [
            Case("discrete", ROW, Discrete(3, start=-1), {}, TRAINING),
            Case("multi_discrete", ROW, MultiDiscrete(np.array([[2, 3], [4, 2]])), {"actor": SMALL}, TRAINING),
            Case("multi_binary", ROW, MultiBinary((2, 2)), {"critic": SMALL}, TRAINING),
            Case("free", ROW, Box.uniform(-2, 1, (2, 3)), {"shared": SMALL}, TRAINING),
            Case("state", ROW, Box.uniform(-0.1, 0.3, (2,), np.float64), {"log_std": "state"}, TRAINING),
            Case("gsde", ROW, Box.uniform(-1, 1, (2,)), {"log_std": "gsde", "squash": True}, TRAINING),
            Case("linear", ROW, Discrete(2), {"actor": {"type": "mlp", "hidden": []}}, TRAINING),
            Case("cnn", IMAGE, Discrete(4), {"shared": TINY_CNN, "actor": SMALL}, TRAINING),
            Case("lstm", ROW, Discrete(3), {"actor": TINY_LSTM, "critic": TINY_GRU}, TRAINING, is_recurrent=True),
            Case("gru", ROW, Box.uniform(-1, 1, (2,)), {"shared": TINY_GRU}, TRAINING, is_recurrent=True),
            Case("blind", ROW, Discrete(3), {"critic": TINY_LSTM}, TRAINING, is_recurrent=True),
        ]


def module(**config: object) -> PPOModule:
    built = RLModuleSpec(PPOModule, ROW, Box.uniform(-1, 1, (2,)), model_config=config).build()
    assert isinstance(built, PPOModule)
    return built


def test_the_names_of_the_state() -> None:
    assert list(arrays(module(shared=SMALL).get_state())) == [
        *(f"encoder/actor_encoder/{layer}/{name}" for layer in (0, 2) for name in ("bias", "weight")),
        *(f"encoder/critic_encoder/{layer}/{name}" for layer in (0, 2) for name in ("bias", "weight")),
        *(f"encoder/encoder/{layer}/{name}" for layer in (0, 2) for name in ("bias", "weight")),
        "pi/log_std",
        "pi/mean/bias",
        "pi/mean/weight",
        "vf/bias",
        "vf/weight",
    ]


def test_the_actor_is_the_formula() -> None:
    built = module(shared=SMALL, actor={"type": "mlp", "hidden": [4], "activation": "tanh"})
    state = {key: value.astype(np.float64) for key, value in arrays(built.get_state()).items()}
    x = np.random.default_rng(0).normal(size=(6, 5))
    hidden = x
    for layer in ("encoder/encoder/0", "encoder/encoder/2"):
        hidden = hidden @ state[f"{layer}/weight"].T + state[f"{layer}/bias"]
        hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
    shared = hidden
    hidden = np.tanh(shared @ state["encoder/actor_encoder/0/weight"].T + state["encoder/actor_encoder/0/bias"])
    mean = hidden @ state["pi/mean/weight"].T + state["pi/mean/bias"]
    found = built.forward_inference({"obs": torch.tensor(x, dtype=torch.float32)})
    assert list(found) == ["mean"]
    np.testing.assert_allclose(found["mean"].detach().numpy(), mean, atol=1e-6)


def test_gsde_spreads_with_the_features() -> None:
    built = module(log_std="gsde", actor={"type": "mlp", "hidden": [4], "activation": "relu"})
    with torch.no_grad():
        built.get_parameter("pi.log_std").normal_()
    obs = torch.randn(6, 5)
    latent = built.encoder.actor(obs, Step({})).detach().double().numpy()
    weights = built.get_parameter("pi.log_std").detach().double().numpy()
    std = np.sqrt(latent**2 @ np.exp(weights) ** 2 + 1e-6)
    found = built.forward_exploration({"obs": obs})["log_std"].detach().numpy()
    np.testing.assert_allclose(np.exp(found), std, rtol=1e-5)


def test_values_are_one_number_each() -> None:
    assert module().forward_train({"obs": torch.zeros(6, 5)})["value"].shape == (6,)


def test_text_cannot_be_acted_in() -> None:
    with pytest.raises(SpecError, match="no policy head"):
        RLModuleSpec(PPOModule, ROW, Text(0, 4, "ab")).build()


def test_an_observation_that_was_not_prepared_is_refused() -> None:
    with pytest.raises(SpecError, match="cannot take these observations") as caught:
        RLModuleSpec(PPOModule, Discrete(4), Discrete(2)).build()
    assert "default_observation_stages" in caught.value.fix


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"actor": {"type": "mpl"}}, "mlp"),
        ({"actor": {"type": "mlp", "activation": "tan"}}, "tanh"),
        ({"actor": {"type": "mlp", "hiden": [3]}}, "hidden"),
        ({"actor": {"type": "mlp", "hidden": [0]}}, "at least 1"),
        ({"actor": {"type": "mlp", "hidden": 64}}, "a list of integers"),
        ({"actor": None}, "a mapping with a type"),
        ({"log_std": "fre"}, "free"),
        ({"squash": 1}, "true or false"),
        ({"shared": {"type": "cnn"}}, "channels, height, width"),
        ({"acter": {}}, "actor"),
    ],
)
def test_a_config_that_does_not_fit_says_what_would(config: dict[str, object], named: str) -> None:
    with pytest.raises(SpecError) as caught:
        module(**config)
    assert named in str(caught.value)


def test_an_image_too_small_is_refused() -> None:
    with pytest.raises(SpecError, match="too small"):
        RLModuleSpec(
            PPOModule, Box.uniform(0, 1, (1, 8, 8)), Discrete(2), model_config={"shared": {"type": "cnn"}}
        ).build()


def recurrent(**config: object) -> PPOModule:
    torch.manual_seed(0)
    return module(**config)


def test_the_actor_with_a_lstm_is_the_formula() -> None:
    built = recurrent(actor={"type": "lstm", "hidden_size": 4}, critic=TINY_GRU)
    state = {key: value.astype(np.float64) for key, value in arrays(built.get_state()).items()}
    rng = np.random.default_rng(0)
    h = c = np.zeros((3, 4))
    memory = {name: torch.zeros(3, 1, 4) for name in built.get_initial_state()}
    for _ in range(5):
        x = rng.normal(size=(3, 5))
        found = built.forward_inference({"obs": torch.tensor(x, dtype=torch.float32), "state_in": memory})
        memory = found["state_out"]
        where = "encoder/actor_encoder/rnn"
        gates = x @ state[f"{where}/weight_ih_l0"].T + state[f"{where}/bias_ih_l0"]
        gates = gates + h @ state[f"{where}/weight_hh_l0"].T + state[f"{where}/bias_hh_l0"]
        i, f, g, o = (part for part in np.split(gates, 4, axis=1))
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        np.testing.assert_allclose(
            found["mean"].detach(), h @ state["pi/mean/weight"].T + state["pi/mean/bias"], atol=1e-6
        )
        np.testing.assert_allclose(memory["actor/c"][:, 0].detach(), c, atol=1e-6)


def test_training_sees_sequences_as_acting_sees_steps() -> None:
    built = recurrent(shared=TINY_GRU, actor=TINY_LSTM, critic=TINY_LSTM)
    assert list(built.get_initial_state()) == ["shared/h", "actor/c", "actor/h"]
    x, starts = torch.randn(3, 6, 5), torch.rand(3, 6) < 0.3
    whole = built.forward_train({"obs": x, "episode_start": starts})
    assert set(whole["state_out"]) == {"shared/h", "actor/c", "actor/h", "critic/c", "critic/h"}
    assert whole["value"].shape == (3, 6)
    memory = {name: torch.zeros(3, *value.shape) for name, value in built.get_initial_state().items()}
    for step in range(6):
        memory = {name: torch.where(starts[:, step, None, None], 0.0, value) for name, value in memory.items()}
        found = built.forward_exploration({"obs": x[:, step], "state_in": memory})
        memory = found["state_out"]
        torch.testing.assert_close(found["mean"], whole["mean"][:, step], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found["log_std"], whole["log_std"][:, step], rtol=1e-5, atol=1e-6)
    for name, value in memory.items():
        torch.testing.assert_close(value, whole["state_out"][name], rtol=1e-5, atol=1e-6)


def test_training_goes_on_where_it_stopped() -> None:
    built = recurrent(actor=TINY_LSTM, critic=TINY_LSTM)
    x = torch.randn(3, 6, 5)
    whole, first = built.forward_train({"obs": x}), built.forward_train({"obs": x[:, :2]})
    second = built.forward_train({"obs": x[:, 2:], "state_in": first["state_out"]})
    for name in ("mean", "value"):
        joined = torch.cat([first[name], second[name]], dim=1)
        torch.testing.assert_close(joined, whole[name], rtol=1e-5, atol=1e-6)


def test_the_spec_says_what_is_remembered_and_nothing_where_nothing_is() -> None:
    spec = recurrent(actor=TINY_LSTM).get_module_spec()
    memory = {"shape": [2, 4], "dtype": "float32"}
    assert spec.state == spec.to_json()["state"] == {"actor/c": memory, "actor/h": memory}
    assert "state" not in recurrent().get_module_spec().to_json()
    assert "state" not in recurrent(critic=TINY_LSTM).get_module_spec().to_json()
    with pytest.raises(SpecError, match="remembers something else"):
        replace(spec, state={"h": memory}).build()
