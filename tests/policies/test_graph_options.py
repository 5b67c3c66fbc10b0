"""What of a policy is exported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlpipe.errors import ConfigError, UnsupportedModuleError
from rlpipe.exporters.signature import Signature, policy_signature
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.policies.stages import Affine
from rlpipe.snapshot.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

PPO = "rlpipe.modules.torch.ppo.PPOModule"
SAC = "rlpipe.modules.torch.sac.SACModule"
DQN = "rlpipe.modules.torch.dqn.DQNModule"
ROW = Box.uniform(-np.inf, np.inf, (3,))
BOX = Box(np.array([-0.5, 0.0]), np.array([0.25, 1.0]), np.dtype(np.float32))
LSTM = {"actor": {"type": "lstm", "hidden_size": 4}}
STOCHASTIC = GraphOptions(mode="stochastic")


def policy(kind: str = PPO, actions: Space = BOX, config: Any = None, **fields: Any) -> Policy:
    torch.manual_seed(0)
    spec = replace(PolicySpec.default(kind, ROW, actions, model_config=config or {}), **fields)
    made = spec.build()
    with torch.no_grad():
        for parameter in made.module.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return made


def named(made: Policy, options: GraphOptions, n: int = 9, seed: int = 0, **given: Any) -> dict[str, Any]:
    """Inputs of a policy, with what is given in place of what is drawn."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for spec in policy_signature(made.spec, options).inputs:
        size = (n, *spec.shape)
        if spec.dtype == "bool":
            found[spec.name] = rng.random(size) < 0.5
        else:
            found[spec.name] = (rng.random(size) if spec.distribution == "uniform" else rng.normal(size=size)).astype(
                spec.dtype
            )
    return {**found, **given}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), kind=st.sampled_from([PPO, SAC]), remembers=st.booleans())
def test_without_noise_a_drawn_action_is_the_mean(seed: int, kind: str, remembers: bool) -> None:
    made = policy(kind, config=LSTM if remembers else {})
    inputs = named(made, STOCHASTIC, seed=seed)
    silent = {**inputs, "noise": np.zeros_like(inputs["noise"])}
    plain = {name: array for name, array in inputs.items() if name != "noise"}
    found, expected = made.answers(silent, STOCHASTIC), made.answers(plain)
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("kind", [PPO, SAC])
def test_real_numbers_are_drawn_around_the_mean(kind: str) -> None:
    made = policy(kind)
    options = GraphOptions(mode="stochastic", outputs=("mean", "log_std"))
    inputs = named(made, options)
    found = made.answers(inputs, options)
    drawn = found["mean"] + np.exp(found["log_std"]) * inputs["noise"]
    low, high = BOX.low, BOX.high
    squashed = low + 0.5 * (np.tanh(drawn) + 1) * (high - low)
    expected = np.clip(drawn, low, high) if kind == PPO else squashed
    np.testing.assert_allclose(found["action"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("actions", "nvec"),
    [(Discrete(4, start=3), (4,)), (MultiDiscrete(np.array([3, 2])), (3, 2))],
    ids=["one", "several"],
)
def test_choices_are_drawn_by_their_probability(actions: Space, nvec: tuple[int, ...]) -> None:
    made = policy(actions=actions)
    options = GraphOptions(mode="stochastic", outputs=("logits",))
    x = np.repeat(np.random.default_rng(1).normal(size=(1, 3)).astype(np.float32), 20_000, 0)
    found = made.answers(named(made, options, n=20_000, obs=x), options)
    start = 3 if isinstance(actions, Discrete) else 0
    drawn = found["action"].reshape(20_000, -1) - start
    logits = found["logits"][0].astype(np.float64)
    for index, block in enumerate(np.split(logits, np.cumsum(nvec)[:-1])):
        expected = np.exp(block - block.max()) / np.exp(block - block.max()).sum()
        counts = np.bincount(drawn[:, index], minlength=nvec[index]) / 20_000
        np.testing.assert_allclose(counts, expected, atol=0.02)


def test_switches_are_drawn_by_their_probability() -> None:
    made = policy(actions=MultiBinary((3,)))
    options = GraphOptions(mode="stochastic", outputs=("logits",))
    inputs = named(made, options, n=50)
    found = made.answers(inputs, options)
    np.testing.assert_array_equal(found["action"], inputs["noise"] < 1 / (1 + np.exp(-found["logits"].astype(float))))


def test_a_raw_action_is_what_is_clipped_and_unscaled() -> None:
    x = named(policy(), GraphOptions())
    plain = policy()
    raw = plain.answers(x, GraphOptions(action="raw"))["action"]
    np.testing.assert_allclose(np.clip(raw, BOX.low, BOX.high), plain.answers(x)["action"])
    assert (raw != plain.answers(x)["action"]).any()
    squashed = policy(SAC)
    raw = squashed.answers(x, GraphOptions(action="raw"))["action"]
    expected = BOX.low + 0.5 * (np.tanh(raw) + 1) * (BOX.high - BOX.low)
    np.testing.assert_allclose(expected, squashed.answers(x)["action"], atol=1e-6)
    wide = policy(actions=Box.uniform(-1, 1, (2, 2), np.float64))
    signature = policy_signature(wide.spec, GraphOptions(action="raw"))
    (spec,) = signature.of_kind("action")
    assert (spec.dtype, spec.shape, spec.low, spec.high) == ("float32", (2, 2), None, None)
    assert wide.answers(x, GraphOptions(action="raw"))["action"].dtype == np.float32


def test_a_raw_choice_is_the_choice() -> None:
    made = policy(actions=Discrete(3, start=1))
    x = named(made, GraphOptions())
    np.testing.assert_array_equal(made.answers(x, GraphOptions(action="raw"))["action"], made.answers(x)["action"])


def test_a_target_goes_on_behind_the_action() -> None:
    made = policy(target=(Affine(scale=(2.0, 0.5), offset=(1.0, -1.0)),))
    x = named(made, GraphOptions())
    found = made.answers(x, GraphOptions(action="target"))["action"]
    np.testing.assert_allclose(found, made.answers(x)["action"] * [2.0, 0.5] + [1.0, -1.0], atol=1e-6)
    (spec,) = policy_signature(made.spec, GraphOptions(action="target")).of_kind("action")
    assert (spec.low, spec.high) == ((0.0, -1.0), (1.5, -0.5))


def test_extras_are_what_the_module_computes() -> None:
    made = policy()
    options = GraphOptions(outputs=("value", "log_std", "mean"))
    assert options.outputs == ("mean", "log_std", "value")
    x = named(made, options)
    found = made.answers(x, options)
    assert list(found) == ["action", "mean", "log_std", "value"]
    expected = made.module.forward_train({"obs": torch.from_numpy(x["obs"])})
    for name in ("mean", "log_std", "value"):
        np.testing.assert_allclose(found[name], expected[name].detach(), atol=1e-6)
    assert found["value"].shape == (9,)


def test_the_value_of_a_shared_memory() -> None:
    made = policy(config={"shared": {"type": "gru", "hidden_size": 4}})
    options = GraphOptions(outputs=("value",))
    x = named(made, options, episode_start=np.zeros(9, bool))
    found = made.answers(x, options)["value"]
    batch = {"obs": torch.from_numpy(x["obs"])[:, None], "state_in": {"shared/h": torch.from_numpy(x["state.0"])}}
    np.testing.assert_allclose(found, made.module.forward_train(batch)["value"][:, 0].detach(), atol=1e-6)


@pytest.mark.parametrize(
    ("made", "options", "named_text"),
    [
        (lambda: policy(config={"critic": {"type": "lstm"}, **LSTM}), GraphOptions(outputs=("value",)), "critic/c"),
        (lambda: policy(SAC), GraphOptions(outputs=("value",)), "log_std, mean"),
        (lambda: policy(DQN, Discrete(2)), STOCHASTIC, "logits of choices"),
        (lambda: policy(DQN, Discrete(2)), GraphOptions(outputs=("logits",)), "found: q"),
        (policy, GraphOptions(outputs=("logits",)), "mean and log_std for real numbers"),
        (lambda: policy(actions=Discrete(2)), GraphOptions(outputs=("log_std",)), "logits for choices"),
        (policy, GraphOptions(action="target"), "a policy with target stages"),
        (lambda: policy(actions=Tuple((Discrete(2), BOX))), STOCHASTIC, "one of the two kinds"),
        (policy, GraphOptions(component="encodr"), "did you mean encoder"),
        (policy, GraphOptions(component="vf"), "ran 0 times"),
    ],
)
def test_what_a_policy_does_not_have_is_said(made: Any, options: GraphOptions, named_text: str) -> None:
    subject = made()
    with pytest.raises(UnsupportedModuleError) as caught:
        subject.answers(named(subject, options), options)
    assert named_text in str(caught.value)


def test_a_slim_policy_has_no_value() -> None:
    slim = policy().spec.with_inference_only(inference_only=True).build()
    options = GraphOptions(outputs=("value",))
    with pytest.raises(UnsupportedModuleError, match="inference only"):
        slim.answers(named(slim, options), options)


@pytest.mark.parametrize("slim", [False, True])
def test_only_who_lacks_the_training_part_is_told_to_export_with_it(slim: bool) -> None:
    made = policy(config={"critic": {"type": "lstm"}, **LSTM})
    subject = made.spec.with_inference_only(inference_only=True).build() if slim else made
    options = GraphOptions(outputs=("value",))
    with pytest.raises(UnsupportedModuleError) as caught:
        subject.answers(named(subject, options), options)
    assert caught.value.fix.startswith("leave value out of export.outputs")
    assert ("training part" in caught.value.fix) == slim


@pytest.mark.parametrize("component", ["encoder", "encoder.actor_encoder", "pi"])
@pytest.mark.parametrize("config", [{}, LSTM], ids=["plain", "lstm"])
def test_features_of_a_component(component: str, config: Any) -> None:
    made = policy(config=config)
    if component == "pi":
        component = "pi.mean"
    options = GraphOptions(component=component)
    x = named(made, options)
    found = made.answers(x, options)
    plain = made.answers(x, GraphOptions(outputs=("mean",)))
    assert list(found) == ["features", *(name for name in plain if name.startswith("state"))]
    weight, bias = (made.module.get_parameter(f"pi.mean.{name}").detach().numpy() for name in ("weight", "bias"))
    mean = found["features"] if component == "pi.mean" else found["features"] @ weight.T + bias
    np.testing.assert_allclose(mean, plain["mean"], atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "named_text"),
    [
        ({"mode": "stochastc"}, "stochastic"),
        ({"action": "envs"}, "env"),
        ({"outputs": ("q",)}, "export.outputs"),
        ({"component": "encoder", "mode": "stochastic"}, "puts out features"),
        ({"component": "encoder", "outputs": ("value",)}, "puts out features"),
    ],
)
def test_options_that_are_none_are_refused(fields: dict[str, Any], named_text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GraphOptions(**fields)
    assert named_text in str(caught.value)


@pytest.mark.parametrize(
    "options", [GraphOptions(), GraphOptions(mode="stochastic", action="raw", outputs=("log_std", "mean"))]
)
def test_options_and_signatures_come_back_from_json(options: GraphOptions) -> None:
    assert GraphOptions.from_json(options.to_json()) == options
    signature = policy_signature(policy(config=LSTM).spec, options)
    assert Signature.from_json(signature.to_json()) == signature
    assert [spec.kind for spec in signature.inputs][:4] == ["observation", "state", "state", "episode_start"]
    assert signature.memory == {"state.0": "state.0.next", "state.1": "state.1.next"}
    assert [spec.memory for spec in signature.of_kind("state")] == ["actor/c", "actor/h"]
