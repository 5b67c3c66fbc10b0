"""Networks of a user's own, named by dotted path in policies under test."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn

from rlpipe.modules.torch.batch import Batch, Outputs
from rlpipe.modules.torch.rl_module import RLModule


class Plain(nn.Module):
    """(B, 4) -> (B, 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Dropout(0.5))
        self.head = nn.Linear(16, 2)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        head: torch.Tensor = self.head(self.body(obs))
        return head


class FixesBatch(Plain):
    """Knows its batch size."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return super().forward(obs) + (1 if int(obs.shape[0]) == 2 else 0)


class LearnsWhileActing(Plain):
    """Updates statistics in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: torch.Tensor
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.seen += obs.detach().mean(dim=0)
        return super().forward(obs)


class Bessel(Plain):
    """Uses a function that ONNX does not have."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(super().forward(obs))


class PicksAtRandom(Plain):
    """Draws its choice."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        logits = super().forward(obs)
        return logits + torch.rand_like(logits)


class BranchingModule(RLModule):
    """A whole RL module of a user's own that looks at the values of its input."""

    def setup(self) -> None:
        self.net = nn.Linear(4, 2)

    def output_kind(self) -> str:
        return "logits"

    def forward_inference(self, batch: Batch) -> Outputs:
        logits = self.net(batch["obs"])
        return {"logits": logits if batch["obs"][0, 0] > 1e9 else 2 * logits}


class KillsItsProcess(Plain):
    """What native code can do, in the process that exports."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        if is_worker():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(obs)


class Hangs(Plain):
    """Comes to no end in the process that exports."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        if is_worker():
            time.sleep(600)
        return super().forward(obs)


def is_worker() -> bool:
    return Path(sys.argv[0]).name == "worker.py"
