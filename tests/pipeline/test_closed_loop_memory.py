"""Episodes of policies that remember or draw: an artifact has to keep its memory and to take the same noise."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.exporters.capture import captured
from rlpipe.exporters.graph import export_graph
from rlpipe.exporters.levels import Level
from rlpipe.exporters.observations import observations
from rlpipe.exporters.record import describe_policy
from rlpipe.exporters.signature import policy_signature
from rlpipe.exporters.targets import numpy as target
from rlpipe.pipeline.closed_loop import ClosedLoop
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box, Discrete, Space

PPO = "rlpipe.modules.torch.ppo.PPOModule"
REACH = np.array([4.8, np.inf, 0.41887903, np.inf], "f4")
CART = Box(-REACH, REACH, np.dtype("f4"))
PENDULUM = Box(np.array([-1, -1, -8], "f4"), np.array([1, 1, 8], "f4"), np.dtype("f4"))
TORQUE = Box.uniform(-2, 2, (1,))


def remembering(observation: Space, action: Space) -> Policy:
    torch.manual_seed(0)
    lstm = {"type": "lstm", "hidden_size": 8, "num_layers": 1}
    made = PolicySpec.default(PPO, observation, action, model_config={"actor": lstm, "critic": lstm}).build()
    with torch.no_grad():
        for parameter in made.module.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return made


class Forgets(nn.Module):
    """A graph that is never given what it kept."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.inside = graph

    def forward(
        self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        found: tuple[torch.Tensor, ...] = self.inside(obs, hidden * 0, cell * 0, start)
        return found


class WithoutMask(nn.Module):
    """A graph that allows everything."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.inside = graph

    def forward(self, obs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inside(obs, torch.ones_like(mask))
        return found


class WithoutNoise(nn.Module):
    """A graph that draws nothing."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.inside = graph

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found: tuple[torch.Tensor, ...] = self.inside(*inputs[:-1], torch.zeros_like(inputs[-1]))
        return found


def level(
    policy: Policy, env_id: str, folder: Path, options: GraphOptions | None = None, wrap: type[nn.Module] | None = None
) -> Level:
    """What the loop says of the policy's file."""
    options = options or GraphOptions()
    signature = policy_signature(policy.spec, options)
    graph: nn.Module = policy.graph(options)
    sample = observations(policy.spec.observation_space, signature).arrays
    file = folder / target.FILE_NAME
    with captured():
        target.export(export_graph(wrap(graph) if wrap else graph, signature, sample), file, target.Options(), {})
    snapshot = snapshot_of(policy)
    description = {**describe_policy(snapshot, signature), **options.to_json()}
    return ClosedLoop(snapshot, "p", env_id, ())("numpy", file, description)


@pytest.mark.parametrize(
    ("env_id", "observation", "action"), [("CartPole-v1", CART, Discrete(2)), ("Pendulum-v1", PENDULUM, TORQUE)]
)
def test_the_memory_is_carried_through_episodes(env_id: str, observation: Space, action: Space, tmp_path: Path) -> None:
    found = level(remembering(observation, action), env_id, tmp_path)
    assert found.status == "ok", found.detail
    assert "each with its own memory" in found.detail
    assert found.facts["mean_return"] == pytest.approx(found.facts["policy_mean_return"], rel=1e-3)


def test_a_file_that_forgets_is_seen(tmp_path: Path) -> None:
    found = level(remembering(PENDULUM, TORQUE), "Pendulum-v1", tmp_path, wrap=Forgets)
    assert found.status == "failed"
    assert found.facts["open_loop_wrong"] > 100
    # The first step has no memory.
    assert found.facts["first_difference"] == 1


def test_both_draw_with_the_same_noise(tmp_path: Path) -> None:
    options = GraphOptions(mode="stochastic")
    policy = remembering(PENDULUM, TORQUE)
    assert level(policy, "Pendulum-v1", tmp_path, options).status == "ok"
    assert level(policy, "Pendulum-v1", tmp_path, options, wrap=WithoutNoise).status == "failed"


def test_both_do_only_what_the_environment_allows(tmp_path: Path) -> None:
    torch.manual_seed(0)
    space = Box.uniform(-1, 1, (2,))
    policy = PolicySpec.default(PPO, space, Discrete(3), action_mask="").build()
    gymnasium.register("Pickier-v0", entry_point="tests.pipeline.tasks.test_evaluate:Picky", disable_env_checker=True)
    try:
        right = level(policy, "Pickier-v0", tmp_path)
        wrong = level(policy, "Pickier-v0", tmp_path, wrap=WithoutMask)
    finally:
        gymnasium.registry.pop("Pickier-v0")
    assert right.status == "ok"
    assert right.facts["mean_return"] == 9
    assert wrong.status == "failed"
    assert wrong.facts["mean_return"] < 9
