"""Users' own modules with a memory: those that export, and those that must end by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlpipe.errors import UnsupportedModuleError
from rlpipe.exporters.freeze import run
from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.observations import observations
from rlpipe.exporters.signature import policy_signature
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.policies.stages import FrameStack
from rlpipe.snapshot.spaces import Box

ROW = Box.uniform(-np.inf, np.inf, (3,))
ACTIONS = Box.uniform(-1, 1, (2,))
PPO = "rlpipe.modules.torch.ppo.PPOModule"
TRUST = ("tests.*",)


class Leaky(RLModule):
    """Remembers a running sum."""

    def setup(self) -> None:
        self.read = nn.Linear(3, 4)
        self.pi = nn.Linear(4, 2)
        self.drop = nn.Dropout(0.5)

    def get_initial_state(self) -> dict[str, Any]:
        return {"sum": torch.zeros(4)}

    def output_kind(self) -> str:
        return "mean"

    def next(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        """The next sum."""
        return 0.9 * past + torch.tanh(self.read(x))

    def forward_inference(self, batch: Any) -> dict[str, Any]:
        now = self.next(batch["obs"], batch["state_in"]["sum"])
        return {"mean": self.pi(now), "state_out": {"sum": now}}


class Boxed(Leaky):
    """Fixes the batch."""

    def next(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        return super().next(x, past).view(2, 4)


class Deciding(Leaky):
    """Branches on what it remembers."""

    def next(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        return super().next(x, past) if past.abs().sum() > 0 else torch.tanh(self.read(x))


class Dropping(Leaky):
    """Keeps dropout on."""

    def next(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(super().next(x, past), 0.5, training=True)


class Stubborn(Leaky):
    """A part of it stays in training mode."""

    class Always(nn.Module):
        """Never evaluates."""

        def train(self, mode: bool = True) -> Any:  # noqa: FBT002 - torch's signature
            del mode
            return super().train(True)  # noqa: FBT003 - torch's signature

    def setup(self) -> None:
        super().setup()
        self.always = self.Always()


class Averaging(Leaky):
    """Updates statistics."""

    mean: torch.Tensor

    def setup(self) -> None:
        super().setup()
        self.register_buffer("mean", torch.zeros(4))

    def next(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(past.mean(0), alpha=0.1)
        return super().next(x, past) - self.mean


class Hoarding(Leaky):
    """Keeps its memory for itself too."""

    def next(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        self.last = super().next(x, past)
        return self.last


class Mixing(Leaky):
    """Lets rows know of each other, in its memory alone."""

    def forward_inference(self, batch: Any) -> dict[str, Any]:
        past = batch["state_in"]["sum"]
        now = self.next(batch["obs"], past)
        return {"mean": self.pi(now), "state_out": {"sum": now + past.mean(0)}}


class Wide(Leaky):
    """Gives more back than it is given."""

    def forward_inference(self, batch: Any) -> dict[str, Any]:
        now = self.next(batch["obs"], batch["state_in"]["sum"])
        return {"mean": self.pi(now), "state_out": {"sum": torch.cat([now, now], dim=1)}}


class Precise(Leaky):
    """Gives its memory back in another dtype."""

    def forward_inference(self, batch: Any) -> dict[str, Any]:
        now = self.next(batch["obs"], batch["state_in"]["sum"])
        return {"mean": self.pi(now), "state_out": {"sum": now.double()}}


class Bound(Leaky):
    """Bakes a device."""

    def setup(self) -> None:
        super().setup()
        self.offset = torch.zeros(4, device="meta")

    def next(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        return super().next(x, past) + self.offset


def policy(kind: type[RLModule] | str, config: Any = None) -> Policy:
    torch.manual_seed(0)
    return PolicySpec.default(kind, ROW, ACTIONS, model_config=config, trust=TRUST).build(trust=TRUST)


def traced(made: Policy, options: GraphOptions | None = None) -> ExportGraph:
    options = options or GraphOptions()
    signature = policy_signature(made.spec, options)
    return export_graph(made.graph(options), signature, observations(ROW, signature).arrays)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (Boxed, "for a batch of 1"),
        (Deciding, "Python decisions from the values"),
        (Dropping, "differently twice"),
        (Stubborn, "module.always"),
        (Averaging, "module.mean"),
        (Hoarding, "module.last"),
        (Mixing, "state.0.next depends on the other observations"),
        (Wide, "state.0.next"),
        (Precise, "float64"),
        (Bound, "module.offset on meta"),
    ],
)
def test_what_cannot_be_exported_ends_by_name(kind: type[RLModule], named: str) -> None:
    with pytest.raises(UnsupportedModuleError) as caught:
        traced(policy(kind))
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({"actor": {"type": "lstm", "hidden_size": 4}}, GraphOptions()),
        ({"shared": {"type": "gru", "hidden_size": 4, "num_layers": 2}}, GraphOptions(outputs=("value", "mean"))),
        ({"actor": {"type": "lstm", "hidden_size": 4}}, GraphOptions(mode="stochastic", outputs=("log_std",))),
        ({"actor": {"type": "gru", "hidden_size": 4}}, GraphOptions(component="encoder")),
    ],
)
def test_what_can_be_exported_gives_what_the_policy_gives(config: Any, options: GraphOptions) -> None:
    from rlpipe.exporters.preparation import component_signature

    made = policy(PPO, config)
    signature = policy_signature(made.spec, options)
    if options.component:
        from rlpipe.checkpoint.restore import snapshot_of

        signature = component_signature(snapshot_of(made), options, trust=())
    sample = observations(ROW, signature).arrays
    graph = export_graph(made.graph(options), signature, sample)
    program: Any = graph.program.module()
    outputs = program(*(torch.tensor(sample[spec.name]) for spec in signature.inputs))
    expected = made.answers(sample, options)
    assert list(expected) == [spec.name for spec in signature.outputs]
    for spec, tensor in zip(signature.outputs, outputs, strict=True):
        np.testing.assert_allclose(tensor.numpy(), expected[spec.name], rtol=1e-4, atol=1e-5)
    for spec, tensor in zip(signature.outputs, run(graph.module, signature, sample), strict=True):
        np.testing.assert_allclose(tensor.numpy(), expected[spec.name], rtol=1e-4, atol=1e-5)


def test_a_component_brings_no_weights_behind_it() -> None:
    made = policy(PPO, {"actor": {"type": "mlp", "hidden": [5]}})
    options = GraphOptions(component="encoder")
    from rlpipe.checkpoint.restore import snapshot_of
    from rlpipe.exporters.preparation import component_signature

    signature = component_signature(snapshot_of(made), options, trust=())
    graph = export_graph(made.graph(options), signature, observations(ROW, signature).arrays)
    assert sorted(graph.program.state_dict) == [f"module.encoder.actor_encoder.0.{name}" for name in ("bias", "weight")]


def test_frames_that_are_stacked_in_the_graph() -> None:
    plain = PolicySpec.default(PPO, Box.uniform(-np.inf, np.inf, (9,)), ACTIONS)
    spec = PolicySpec(plain.module, ROW, ACTIONS, (FrameStack(3),), plain.action)
    graph = traced(spec.build())
    assert [one.name for one in graph.signature.inputs] == ["obs", "state.0", "episode_start"]


def test_a_memory_of_ones_own_is_exported_as_it_is() -> None:
    assert traced(policy(Leaky)).signature.memory == {"state.0": "state.0.next"}
