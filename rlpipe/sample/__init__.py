"""The packaged sample: policies trained by `rlpipe.sample.train` and brought in by rlpipe's own importer.

p0 is PPO on CartPole-v1, p1 SAC on Pendulum-v1, p2 DQN on CartPole-v1, with all weights of training.
"""

from __future__ import annotations

from pathlib import Path


def sample_path() -> Path:
    """Directory of the packaged checkpoint."""
    return Path(__file__).parent / "checkpoint"
