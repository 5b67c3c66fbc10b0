"""Losses, optimizers, policies and batches for the tests of this folder and of the conformance suites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.snapshot.spaces import Box, Discrete
from tests.modules import networks

ROW = Box.uniform(-1, 1, (3,))
TRUST = ("tests.algorithms.training.*",)
SMALL = {"actor": {"type": "mlp", "hidden": [4]}, "critic": {"type": "mlp", "hidden": [4]}}


def loss(module: Any, batch: Mapping[str, Any]) -> torch.Tensor:
    """Cloning of actions, and a value that should be zero."""
    outputs = module.forward_train(batch)
    found = nn.functional.cross_entropy(outputs["logits"], batch["actions"])
    return found + outputs["value"].square().mean() if "value" in outputs else found


def sequence_loss(module: Any, batch: Mapping[str, Any]) -> torch.Tensor:
    """As `loss`, over what an EnvRunner gives of a module that remembers: (B, T, ...)."""
    outputs = module.forward_train(batch)
    counts = batch["loss_mask"]
    found = nn.functional.cross_entropy(outputs["logits"][counts], batch["actions"][counts])
    return found + outputs["value"][counts].square().mean()


def noisy_loss(module: Any, batch: Mapping[str, Any]) -> torch.Tensor:
    """As `loss`, with numbers of all generators in it."""
    import random

    noise = random.random() + float(np.random.random()) + torch.rand(())  # noqa: NPY002
    return loss(module, batch) * (0.5 + noise)


def no_loss(module: Any, batch: Mapping[str, Any]) -> torch.Tensor:
    """Not a scalar."""
    outputs: torch.Tensor = module.forward_train(batch)["logits"]
    return outputs


class Believing(torch.optim.Optimizer):
    """Groups that hold lists of None and flags, and a step that is an int, as AdaBelief has them."""

    def __init__(self, params: Iterable[Any], lr: float = 1e-2) -> None:
        super().__init__(params, {"lr": lr, "buffer": [[None, None, None] for _ in range(2)], "rectify": True})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                state.setdefault("step", 0)
                state.setdefault("mean", torch.zeros_like(parameter))
                state["step"] += 1
                with torch.no_grad():
                    state["mean"].lerp_(parameter.grad, 0.1)
                    parameter.sub_(state["mean"], alpha=group["lr"])
        return loss


class Warm(torch.optim.lr_scheduler.SequentialLR):
    """A schedule of schedules, whose second one is a function of the base."""

    def __init__(self, optimizer: torch.optim.Optimizer, milestone: int = 2) -> None:
        schedules = torch.optim.lr_scheduler
        first = schedules.LinearLR(optimizer, 0.5, 1.0, milestone)
        second = schedules.LambdaLR(optimizer, lambda count: 1 / (1 + count))
        super().__init__(optimizer, [first, second], milestones=[milestone])


class Forward(RLModule):
    """Three layers, made in the order of their use."""

    names = ("first", "second", "third")

    def setup(self) -> None:
        sizes = {"first": (3, 4), "second": (4, 4), "third": (4, 2)}
        torch.manual_seed(0)
        made = {name: nn.Linear(*sizes[name]) for name in sizes}
        for name in self.names:
            self.add_module(name, made[name])

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        found = batch["obs"]
        for name in ("first", "second"):
            found = torch.tanh(self.get_submodule(name)(found))
        return {"logits": self.get_submodule("third")(found)}


class Backward(Forward):
    """The same, made the other way round."""

    names = ("third", "second", "first")


class Tied(networks.Tied):
    """The value function reads the trunk under a name of its own, and is trained."""

    def forward_train(self, batch: Any) -> dict[str, torch.Tensor]:
        return {**self.forward_inference(batch), "value": self.critic(batch["obs"]).squeeze(1)}


def spec(kind: Any = PPOModule, **options: Any) -> PolicySpec:
    config = {"model_config": SMALL} if kind is PPOModule else {}
    return PolicySpec.default(kind, ROW, Discrete(2), **{**config, **options})


def policy(seed: int = 0, kind: Any = PPOModule, **options: Any) -> Policy:
    torch.manual_seed(seed)
    return spec(kind, **options).build()


def batch(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"obs": rng.normal(size=(8, 3)).astype(np.float32), "actions": rng.integers(0, 2, 8)}


def learner(training: TrainingSpec | None = None, *ids: str, kind: Any = PPOModule) -> Learner:
    policies = {name: policy(index, kind) for index, name in enumerate(ids or ("p0",))}
    return Learner.for_policies(policies, training or TrainingSpec(loss=loss), trust=TRUST)


def step(made: Learner, first: int, count: int) -> list[dict[str, float]]:
    """Updates with batches that follow from their number."""
    return [
        made.update({name: batch(100 * index + number) for index, name in enumerate(made.policies)})
        for number in range(first, first + count)
    ]
