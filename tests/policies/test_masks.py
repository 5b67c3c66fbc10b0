"""Choices that are not allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlpipe.errors import ObservationError, SpecError
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.policies.stages import Argmax, Mask, MultiArgmax, Tanh
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from tests.modules import networks

PPO = "rlpipe.modules.torch.ppo.PPOModule"
ROW = Box.uniform(-np.inf, np.inf, (3,))
SEVERAL = MultiDiscrete(np.array([3, 2]), start=np.array([5, -1]))
STOCHASTIC = GraphOptions(mode="stochastic")


class Scores(networks.Echo):
    """The prepared observation is the logits."""

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": batch["obs"]}


def echo(actions: Space, width: int, key: str = "") -> Policy:
    """A policy whose scores are its observations."""
    space = Box.uniform(-np.inf, np.inf, (width,))
    return PolicySpec.default(Scores, space, actions, action_mask=key, trust=("tests.*",)).build(trust=("tests.*",))


def chosen(scores: Any, mask: Any, nvec: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The rule in plain Python."""
    found = []
    for row, allowed in zip(scores, mask, strict=True):
        start, picks = 0, []
        for n in nvec:
            block, flags = row[start : start + n], allowed[start : start + n]
            among = [index for index in range(n) if flags[index]] or list(range(n))
            picks.append(max(among, key=lambda index: (block[index], -index)))
            start += n
        found.append(picks)
    return np.array(found)


floats = st.floats(allow_nan=False, width=32)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(1, 4))
def test_what_is_chosen_is_allowed_and_the_best_of_that(data: st.DataObject, n: int) -> None:
    scores = np.array(data.draw(st.lists(st.lists(floats, min_size=5, max_size=5), min_size=n, max_size=n)), np.float32)
    mask = np.array(data.draw(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=n, max_size=n)))
    actions = echo(SEVERAL, 5).compute_actions(scores, action_mask=mask) - np.array([5, -1])
    raised = np.maximum(scores, np.finfo(np.float32).min)
    np.testing.assert_array_equal(actions, chosen(raised, mask, (3, 2)))
    for row in range(n):
        for block, action in ((mask[row, :3], actions[row, 0]), (mask[row, 3:], actions[row, 1])):
            assert block[action] or not block.any()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999))
def test_what_is_drawn_is_allowed_even_of_the_ends_of_the_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = echo(Discrete(4, start=2), 4)
    mask = rng.random((64, 4)) < 0.4
    mask[:, 1] |= ~mask.any(axis=1)
    noise = rng.choice([0.0, 1.0, 0.5, 1e-30, 0.999], size=(64, 4)).astype(np.float32)
    scores = (rng.normal(size=(64, 4)) * 10.0 ** rng.uniform(-3, 30, (64, 1))).astype(np.float32)
    found = made.answers({"obs": scores, "action_mask": mask, "noise": noise}, STOCHASTIC)["action"] - 2
    assert mask[np.arange(64), found].all()


def test_without_a_mask_all_is_allowed() -> None:
    made = echo(Discrete(3), 3)
    scores = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_array_equal(made.compute_actions(scores), scores.argmax(1))
    np.testing.assert_array_equal(made.compute_actions(scores, action_mask=np.zeros((5, 3), bool)), scores.argmax(1))
    assert made.compute_actions(scores[0], action_mask=np.array([False, True, False])) == 1


def test_names_of_the_graph() -> None:
    made = PolicySpec.default(
        PPO, ROW, SEVERAL, model_config={"actor": {"type": "gru", "hidden_size": 4}}, action_mask=""
    ).build()
    assert made.graph(STOCHASTIC).input_names == ("obs", "state.0", "episode_start", "action_mask", "noise")
    assert made.spec.action[0] == Mask((3, 2))
    step = made.step(np.zeros((2, 3), np.float32), action_mask=np.eye(5, dtype=bool)[:2])
    assert step.actions[:, 0].tolist() == [5, 6]


@pytest.mark.parametrize("held", [MultiBinary((3,)), Box.uniform(0, 1, (3,)), Box.uniform(0, 1, (3,), np.bool_)])
def test_a_mask_in_the_observation_is_not_seen_by_the_module(held: Space) -> None:
    space = Dict({"action_mask": held, "x": Box.uniform(-1, 1, (2,))})
    made = PolicySpec.default(PPO, space, Discrete(3), action_mask="action_mask").build()
    assert made.graph().input_names == ("obs.action_mask", "obs.x")
    assert made.module.observation_space == Box.uniform(-1, 1, (2,))
    rng = np.random.default_rng(0)
    mask = np.eye(3)[rng.integers(3, size=8)].astype(held.dtype)  # type: ignore[attr-defined]
    x = rng.uniform(-1, 1, (8, 2)).astype(np.float32)
    np.testing.assert_array_equal(made.compute_actions({"action_mask": mask, "x": x}), mask.argmax(1))
    with pytest.raises(ObservationError, match="does not use action_mask"):
        made.compute_actions({"action_mask": mask, "x": x}, action_mask=np.ones((8, 3), bool))
    assert PolicySpec.from_spec(made.spec.to_spec()).to_json() == made.spec.to_json()


@pytest.mark.parametrize("mask", [np.ones((2, 4), bool), np.ones((2, 5)), np.ones((3, 5), bool)])
def test_a_mask_that_does_not_fit_is_told_how_masks_look(mask: Any) -> None:
    made = PolicySpec.default(PPO, ROW, SEVERAL, action_mask="").build()
    with pytest.raises(ObservationError, match="action_mask does not fit") as caught:
        made.step(np.zeros((2, 3), np.float32), action_mask=mask)
    assert "(B, n) bool over all choices" in caught.value.fix


def test_margins_know_the_mask() -> None:
    made = echo(Discrete(3), 3)
    graph, scores = made.graph(), torch.tensor([[1.0, 4.0, 2.5]])
    mask = torch.tensor([[True, False, True]])
    assert graph.sureness({"obs": scores, "action_mask": mask}).tolist() == [1.5]


@pytest.mark.parametrize(
    ("actions", "key", "named"),
    [
        (Box.uniform(-1, 1, (2,)), "", "nothing that an action mask could forbid"),
        (MultiBinary((2,)), "", "nothing that an action mask could forbid"),
        (Discrete(2), "mask", "no mask 'mask'"),
    ],
)
def test_masks_that_make_no_sense_are_refused(actions: Space, key: str, named: str) -> None:
    with pytest.raises(SpecError, match=named):
        PolicySpec.default(PPO, ROW, actions, action_mask=key)


@pytest.mark.parametrize(
    "stages",
    [
        (Argmax(), Mask((3,))),
        (Tanh(), Mask((3,)), Argmax()),
        (Mask((3,), "gone"), Argmax()),
        (Mask((2,)), Argmax()),
        (Mask((3, 2)), MultiArgmax((3,), (0,))),
    ],
)
def test_a_mask_in_the_wrong_place_is_refused(stages: Any) -> None:
    with pytest.raises(SpecError):
        PolicySpec(RLModuleSpec(Scores, ROW, Discrete(3)), ROW, Discrete(3), (), stages)
