from __future__ import annotations

import numpy as np
import pytest
import torch

from rlpipe.errors import SpecError
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.dqn import DQNModule
from rlpipe.snapshot.spaces import Box, Discrete
from rlpipe.snapshot.state import arrays
from tests.conformance.module_suite import Case, ModuleSuite

ROW = Box.uniform(-np.inf, np.inf, (5,))
IMAGE = Box.uniform(0, 1, (3, 20, 20))
TINY_CNN = {"type": "cnn", "filters": [[4, 5, 3]], "hidden": [8]}
TINY_LSTM = {"type": "lstm", "hidden_size": 4}
DUELING = {"dueling": True, "head_hidden": [6], "encoder": {"type": "mlp", "hidden": [7], "activation": "silu"}}
ATOMS = {"count": 4, "low": -1.0, "high": 2.0}
CHAIN = {
    "type": "chain",
    "links": [{"type": "mlp", "hidden": [4]}, {"type": "mlp", "hidden": [3], "activation": "elu"}],
}
NEXT = {"next_obs": (5,)}


class TestDQN(ModuleSuite):
    module_class = "rlpipe.modules.torch.dqn.DQNModule"

    @staticmethod
    def cases() -> list[Case]:
        return [
            Case("plain", ROW, Discrete(3, start=2), {}, ("target_",), NEXT),
            Case("single", ROW, Discrete(3), {"double": False}, ("target_",), NEXT),
            Case("dueling", ROW, Discrete(4), DUELING, ("target_",)),
            Case("heads", ROW, Discrete(4), {**DUELING, "head_activation": "elu"}, ("target_",)),
            Case("linear", ROW, Discrete(2), {"encoder": {"type": "mlp", "hidden": []}}, ("target_",)),
            Case("cnn", IMAGE, Discrete(4), {"encoder": TINY_CNN}, ("target_",)),
            Case("atoms", ROW, Discrete(3), {"atoms": ATOMS}, ("target_",), NEXT),
            Case("rainbow", ROW, Discrete(3), {**DUELING, "atoms": ATOMS}, ("target_",), NEXT),
            Case("chain", ROW, Discrete(3), {"encoder": CHAIN, "head_hidden": [4]}, ("target_",)),
            Case("lstm", ROW, Discrete(3), {"encoder": TINY_LSTM, "dueling": True}, ("target_",), is_recurrent=True),
        ]


def module(**config: object) -> DQNModule:
    built = RLModuleSpec(DQNModule, ROW, Discrete(3), model_config=config).build()
    assert isinstance(built, DQNModule)
    return built


def test_the_names_of_the_state() -> None:
    assert list(arrays(module(encoder={"type": "mlp", "hidden": [4], "activation": "relu"}).get_state())) == [
        *(f"{part}/{name}" for part in ("encoder/0", "q") for name in ("bias", "weight")),
        *(f"target_{part}/{name}" for part in ("encoder/0", "q") for name in ("bias", "weight")),
    ]


def test_heads_have_an_activation_of_their_own_where_one_is_given() -> None:
    plain, own = module(head_hidden=[6]), module(head_hidden=[6], head_activation="tanh")
    assert "head_activation" not in plain.get_module_spec().model_config
    assert own.get_module_spec().model_config["head_activation"] == "tanh"
    head = own.get_submodule("q")
    latent = own.encoder(torch.randn(3, 5))
    first, _, last = head.children()
    torch.testing.assert_close(head(latent), last(torch.tanh(first(latent))))
    with pytest.raises(SpecError, match="head_activation"):
        module(head_activation="sine")


@pytest.mark.parametrize("is_dueling", [False, True])
def test_values_of_atoms_are_means_of_their_distribution(is_dueling: bool) -> None:
    built = module(atoms=ATOMS, dueling=is_dueling)
    obs = torch.randn(6, 5)
    latent = built.encoder(obs)
    if is_dueling:
        advantages, values = (built.get_submodule(name)(latent) for name in ("af", "vf"))
        advantages = advantages.reshape(6, 3, 4)
        logits = values[:, None] + advantages - advantages.mean(dim=1, keepdim=True)
    else:
        logits = built.get_submodule("q")(latent).reshape(6, 3, 4)
    weights = logits.double().exp() / logits.double().exp().sum(dim=2, keepdim=True)
    expected = (weights * torch.tensor([-1.0, 0.0, 1.0, 2.0])).sum(dim=2)
    torch.testing.assert_close(built.forward_inference({"obs": obs})["q"], expected.float())


def test_plain_values_have_no_atoms_in_their_spec() -> None:
    assert "atoms" not in module().get_module_spec().model_config
    assert module(atoms=ATOMS).get_module_spec().model_config["atoms"] == ATOMS


@pytest.mark.parametrize(
    "atoms", [{"count": 1}, {"low": 2.0}, {"high": float("inf")}, {"high": "2"}, {"most": 3.0}, {"count": 2.0}]
)
def test_atoms_that_span_nothing_are_refused(atoms: dict[str, object]) -> None:
    with pytest.raises(SpecError, match=r"model_config\.atoms"):
        module(atoms={**ATOMS, **atoms})


def test_dueling_keeps_its_value_head_to_act() -> None:
    names = {key.partition("/")[0] for key in arrays(module(**DUELING).get_state(inference_only=True))}
    assert names == {"encoder", "af", "vf"}


def test_dueling_is_the_formula() -> None:
    built = module(dueling=True)
    obs = torch.randn(6, 5)
    latent = built.encoder(obs)
    advantages, value = (getattr(built, name)(latent).detach().numpy() for name in ("af", "vf"))
    found = built.forward_inference({"obs": obs})["q"].detach().numpy()
    np.testing.assert_allclose(found, value + advantages - advantages.mean(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_the_target_starts_equal_and_stays_behind() -> None:
    built = module()
    obs = torch.randn(6, 5)
    with torch.no_grad():
        before = built.forward_train({"obs": obs, "next_obs": obs})
        built.get_parameter("q.bias").add_(1)
        after = built.forward_train({"obs": obs, "next_obs": obs})
    assert torch.equal(before["next_q"], before["next_target_q"])
    assert torch.equal(after["next_target_q"], before["next_target_q"])
    assert not torch.equal(after["next_q"], before["next_q"])


def test_real_actions_are_refused() -> None:
    with pytest.raises(SpecError, match="chooses among actions"):
        RLModuleSpec(DQNModule, ROW, Box.uniform(-1, 1, (2,))).build()


def test_a_recurrent_one_trains_on_sequences_of_both_networks() -> None:
    torch.manual_seed(0)
    built = module(encoder={"type": "lstm", "hidden_size": 4}, dueling=True)
    assert list(built.get_initial_state()) == ["encoder/c", "encoder/h"]
    x, starts = torch.randn(2, 4, 5), torch.rand(2, 4) < 0.4
    whole = built.forward_train({"obs": x, "episode_start": starts})
    torch.testing.assert_close(whole["q"], whole["target_q"])
    assert not whole["target_q"].requires_grad
    memory = {name: torch.zeros(2, 1, 4) for name in built.get_initial_state()}
    for step in range(4):
        memory = {name: torch.where(starts[:, step, None, None], 0.0, value) for name, value in memory.items()}
        found = built.forward_inference({"obs": x[:, step], "state_in": memory})
        memory = found["state_out"]
        torch.testing.assert_close(found["q"], whole["q"][:, step], rtol=1e-5, atol=1e-6)
