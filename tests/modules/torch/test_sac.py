from __future__ import annotations

import numpy as np
import pytest
import torch

from rlpipe.errors import SpecError
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.heads import GaussianHead
from rlpipe.modules.torch.sac import SACModule
from rlpipe.snapshot.spaces import Box, Discrete, MultiDiscrete
from rlpipe.snapshot.state import arrays
from tests.conformance.module_suite import Case, ModuleSuite

ROW = Box.uniform(-np.inf, np.inf, (5,))
IMAGE = Box.uniform(0, 1, (3, 20, 20))
TINY_CNN = {"type": "cnn", "filters": [[4, 5, 3]], "hidden": [8]}
SMALL = {"type": "mlp", "hidden": [7, 6], "activation": "relu"}
CHAIN = {"type": "chain", "links": [SMALL, {"type": "mlp", "hidden": [4], "activation": "tanh"}]}
FUSED = {
    "type": "fused",
    "observation": SMALL,
    "actions": {"type": "mlp", "hidden": [4], "activation": "relu"},
    "fusion": {"type": "mlp", "hidden": [5, 3], "activation": "tanh"},
    "after": {"type": "mlp", "hidden": [4], "activation": "elu"},
}
TRAINING = ("qf/", "target_qf/", "log_alpha")
PAIR = {"actions": (2,)}


class TestSAC(ModuleSuite):
    module_class = "rlpipe.modules.torch.sac.SACModule"

    @staticmethod
    def cases() -> list[Case]:
        actions = Box(np.array([-1.0, 0.5]), np.array([3.0, 0.75]), np.dtype(np.float32))
        return [
            Case("state", ROW, actions, {"actor": SMALL, "critic": SMALL}, TRAINING, PAIR),
            Case("gsde", ROW, actions, {"log_std": "gsde", "mean_clip": 2.0, "actor": SMALL}, TRAINING, PAIR),
            Case(
                "one_critic",
                ROW,
                Box.uniform(-1, 1, (2,), np.float64),
                {"n_critics": 1, "learn_alpha": False},
                TRAINING,
                PAIR,
            ),
            Case("gru", ROW, actions, {"actor": {"type": "gru", "hidden_size": 4}}, TRAINING, PAIR, is_recurrent=True),
            Case("cnn", IMAGE, actions, {"actor": TINY_CNN, "critic": TINY_CNN}, TRAINING, PAIR),
            Case("fused", ROW, actions, {"actor": SMALL, "critic": FUSED}, TRAINING, PAIR),
            Case("fused_cnn", IMAGE, actions, {"critic": {**FUSED, "observation": TINY_CNN}}, TRAINING, PAIR),
            Case("chain", ROW, actions, {"actor": CHAIN, "critic": CHAIN}, TRAINING, PAIR),
            Case("choices", ROW, Discrete(3, start=1), {"actor": SMALL, "critic": SMALL}, TRAINING),
        ]


def module(**config: object) -> SACModule:
    built = RLModuleSpec(SACModule, ROW, Box.uniform(-1, 1, (2,)), model_config=config).build()
    assert isinstance(built, SACModule)
    return built


def test_the_names_of_the_state() -> None:
    small = {"type": "mlp", "hidden": [4], "activation": "relu"}
    assert list(arrays(module(actor=small, critic=small, n_critics=1).get_state())) == [
        "log_alpha",
        *(f"{part}/{name}" for part in ("pi/log_std", "pi/mean", "pi_encoder/0") for name in ("bias", "weight")),
        *(f"qf/0/{part}/{name}" for part in ("encoder/0", "q") for name in ("bias", "weight")),
        *(f"target_qf/0/{part}/{name}" for part in ("encoder/0", "q") for name in ("bias", "weight")),
    ]


def test_the_mean_is_clipped_before_tanh() -> None:
    built = module(mean_clip=0.5)
    obs = 1e3 * torch.randn(50, 5)
    found = built.forward_inference({"obs": obs})["mean"]
    assert isinstance(built.pi, GaussianHead)
    raw = built.pi.mean(built.pi_encoder(obs))
    assert raw.abs().max() > 1
    assert torch.equal(found, raw.clamp(-0.5, 0.5))


def test_the_log_deviation_is_bounded() -> None:
    found = module().forward_exploration({"obs": 1e6 * torch.randn(50, 5)})["log_std"]
    assert found.min() == -20
    assert found.max() == 2


def test_critics_differ_and_targets_start_equal() -> None:
    batch = {"obs": torch.randn(6, 5), "actions": torch.randn(6, 2)}
    outputs = module().forward_train(batch)
    assert outputs["critic_q"].shape == (6, 2)
    assert torch.equal(outputs["critic_q"], outputs["target_q"])
    assert not torch.equal(outputs["critic_q"][:, 0], outputs["critic_q"][:, 1])


def test_over_choices_critics_value_every_one() -> None:
    built = RLModuleSpec(SACModule, ROW, Discrete(3), model_config={"critic": SMALL}).build()
    outputs = built.forward_train({"obs": torch.randn(6, 5)})
    assert outputs["logits"].shape == (6, 3)
    assert outputs["critic_q"].shape == outputs["target_q"].shape == (6, 2, 3)
    with pytest.raises(SpecError, match="choices have no features"):
        RLModuleSpec(SACModule, ROW, Discrete(3), model_config={"critic": FUSED}).build()


def test_over_choices_a_recurrent_actor_trains_on_sequences() -> None:
    config = {"actor": {"type": "gru", "hidden_size": 4}}
    built = RLModuleSpec(SACModule, ROW, Discrete(3), model_config=config).build()
    outputs = built.forward_train({"obs": torch.randn(6, 4, 5)})
    assert outputs["logits"].shape == (6, 4, 3)
    assert outputs["critic_q"].shape == (6, 4, 2, 3)


def test_several_choices_are_refused() -> None:
    with pytest.raises(SpecError, match="real numbers, or one choice"):
        RLModuleSpec(SACModule, ROW, MultiDiscrete(np.array([2, 3]))).build()


@pytest.mark.parametrize("bound", [0, -1.0, float("inf"), "2", True])
def test_a_mean_clip_that_is_no_bound_is_refused(bound: object) -> None:
    with pytest.raises(SpecError, match="mean_clip is no bound"):
        module(mean_clip=bound)


def test_a_recurrent_actor_trains_on_sequences_and_the_critics_on_steps() -> None:
    torch.manual_seed(0)
    built = module(actor={"type": "gru", "hidden_size": 4})
    assert list(built.get_initial_state()) == ["actor/h"]
    x, actions = torch.randn(2, 4, 5), torch.rand(2, 4, 2)
    whole = built.forward_train({"obs": x, "actions": actions})
    assert whole["critic_q"].shape == whole["target_q"].shape == (2, 4, 2)
    torch.testing.assert_close(whole["critic_q"][1, 3, 0], built.qf[0](x[1:2, 3], actions[1:2, 3])[0])
    first = built.forward_inference({"obs": x[:, 0], "state_in": {"actor/h": torch.zeros(2, 1, 4)}})
    torch.testing.assert_close(first["mean"], whole["mean"][:, 0], rtol=1e-5, atol=1e-6)


def test_a_critic_with_a_memory_is_refused() -> None:
    with pytest.raises(SpecError, match="keeps a memory") as caught:
        module(critic={"type": "lstm"})
    assert "actor" in caught.value.fix
