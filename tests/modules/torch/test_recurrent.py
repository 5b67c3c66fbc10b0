"""Recurrent encoders against torch's own networks and against the formula in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rlpipe.errors import SpecError
from rlpipe.modules.torch.encoders import CNN, GRU, LSTM, MLP, RecurrentEncoder, read_encoder
from rlpipe.modules.torch.passes import Sequence, Step

KINDS = {"lstm": (LSTM, nn.LSTM), "gru": (GRU, nn.GRU)}


def encoder(kind: str, layers: int = 2, **around: Any) -> RecurrentEncoder:
    torch.manual_seed(0)
    return KINDS[kind][0](hidden_size=5, num_layers=layers, **around).build((3,))


def random_memory(made: RecurrentEncoder, rows: int) -> dict[str, torch.Tensor]:
    return {name: torch.randn(rows, *value.shape) for name, value in made.initial_memory().items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_one_is_what_torch_builds_of_the_same_seed(kind: str) -> None:
    ours = encoder(kind).rnn.state_dict()
    torch.manual_seed(0)
    theirs = KINDS[kind][1](3, 5, num_layers=2).state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_what_torch_computes(kind: str) -> None:
    made = encoder(kind)
    theirs = KINDS[kind][1](3, 5, num_layers=2, batch_first=True)
    theirs.load_state_dict(made.rnn.state_dict())
    memory, x = random_memory(made, 4), torch.randn(4, 6, 3)
    turned = {name: value.transpose(0, 1).contiguous() for name, value in memory.items()}
    expected, last = theirs(x, (turned["h"], turned["c"]) if kind == "lstm" else turned["h"])
    last = dict(zip(("h", "c"), last if kind == "lstm" else (last,), strict=False))
    found = []
    for step in range(6):
        features, memory = made(x[:, step], memory)
        found.append(features)
    torch.testing.assert_close(torch.stack(found, dim=1), expected, rtol=1e-5, atol=1e-6)
    for name, value in memory.items():
        torch.testing.assert_close(value, last[name].transpose(0, 1), rtol=1e-5, atol=1e-6)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    made: np.ndarray = 1 / (1 + np.exp(-x))
    return made


def test_a_lstm_is_the_formula() -> None:
    made = encoder("lstm", layers=1)
    state = {name: value.double().numpy() for name, value in made.rnn.state_dict().items()}
    memory, x = random_memory(made, 4), torch.randn(4, 3)
    h, c = (memory[name].double().numpy()[:, 0] for name in ("h", "c"))
    gates = x.double().numpy() @ state["weight_ih_l0"].T + state["bias_ih_l0"]
    gates = gates + h @ state["weight_hh_l0"].T + state["bias_hh_l0"]
    i, f, g, o = np.split(gates, 4, axis=1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    h = _sigmoid(o) * np.tanh(c)
    features, now = made(x, memory)
    np.testing.assert_allclose(features.detach(), h, atol=1e-6)
    np.testing.assert_allclose(now["c"][:, 0].detach(), c, atol=1e-6)
    np.testing.assert_allclose(now["h"][:, 0].detach(), h, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    starts=st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_a_sequence_is_its_steps_and_forgets_where_episodes_begin(
    kind: str, starts: list[list[bool]], seed: int
) -> None:
    made = encoder(kind, before={"type": "mlp", "hidden": [4]}, after={"type": "mlp", "hidden": [6]})
    torch.manual_seed(seed)
    begins = torch.tensor(starts)
    x, memory = torch.randn(*begins.shape, 3), random_memory(made, len(starts))
    features, last = made.sequence(x, memory, begins)
    for step in range(5):
        fresh = {name: torch.zeros_like(value) for name, value in memory.items()}
        row = begins[:, step, None, None]
        memory = {name: torch.where(row, fresh[name], value) for name, value in memory.items()}
        expected, memory = made(x[:, step], memory)
        torch.testing.assert_close(features[:, step], expected, rtol=1e-5, atol=1e-6)
    for name, value in last.items():
        torch.testing.assert_close(value, memory[name], rtol=1e-5, atol=1e-6)
    if not begins[:, 1:].any():
        kernel, _ = made.sequence(x, memory, None)
        assert kernel.shape == features.shape


@pytest.mark.parametrize("kind", KINDS)
def test_without_resets_the_kernel_gives_the_same(kind: str) -> None:
    made = encoder(kind)
    x, memory = torch.randn(3, 7, 3), random_memory(made, 3)
    quick, last = made.sequence(x, memory, None)
    slow, end = made.sequence(x, memory, torch.zeros(3, 7, dtype=torch.bool))
    torch.testing.assert_close(quick, slow, rtol=1e-5, atol=1e-6)
    for name in last:
        torch.testing.assert_close(last[name], end[name], rtol=1e-5, atol=1e-6)


def test_gradients_flow_through_sequences() -> None:
    for starts in (None, torch.zeros(3, 7, dtype=torch.bool)):
        made = encoder("lstm").train()
        made.sequence(torch.randn(3, 7, 3), random_memory(made, 3), starts)[0].sum().backward()  # type: ignore[no-untyped-call]
        assert all(parameter.grad is not None for parameter in made.parameters())


@pytest.mark.parametrize(
    "config",
    [
        LSTM(hidden_size=3),
        GRU(hidden_size=3, num_layers=2, before=MLP(hidden=(4,)), after=MLP(hidden=(2,))),
        LSTM(before=CNN()),
    ],
)
def test_a_config_comes_back_from_json(config: LSTM | GRU) -> None:
    assert read_encoder(config.to_json(), where="encoder") == config
    assert type(read_encoder(config.to_json(), where="encoder")) is type(config)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"hidden_size": 0}, "at least 1"),
        ({"num_layers": 1.5}, "an integer"),
        ({"before": {"type": "lstm"}}, "cnn, mlp"),
        ({"after": {"type": "cnn"}}, "one of mlp"),
        ({"hidden": [3]}, "hidden_size"),
    ],
)
def test_a_config_that_does_not_fit_says_what_would(config: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_encoder({"type": "lstm", **config}, where="encoder")
    assert named in str(caught.value)


def test_a_step_without_memory_says_what_is_missing() -> None:
    made = encoder("lstm")
    with pytest.raises(SpecError, match="actor keeps a memory") as caught:
        Step({"obs": None}).through("actor", made, torch.zeros(2, 3))
    assert "actor/c" in str(caught.value)


def test_a_sequence_may_begin_anew_but_not_with_half_a_memory() -> None:
    made = encoder("lstm")
    x = torch.randn(2, 4, 3)
    fresh = Sequence({}).through("actor", made, x)
    zeros = {f"actor/{name}": torch.zeros(2, 2, 5) for name in ("h", "c")}
    torch.testing.assert_close(fresh, Sequence({"state_in": zeros}).through("actor", made, x))
    with pytest.raises(SpecError, match="actor/c"):
        Sequence({"state_in": {"actor/h": zeros["actor/h"]}}).through("actor", made, x)
