"""How many small policies become proven artifacts in a minute: cold (workers start too) and warm (the same workers).

    python tests/benchmarks/many_policies.py [--policies 20] [--target onnx] [--jobs 1 2]

Each is an actor of two layers of 64 units with own weights, from 4 observations to 2 choices, with value function.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.exporters.export import Candidate, Order, export_policies
from rlpipe.exporters.target import resolve
from rlpipe.exporters.worker_pool import WorkerPool
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box, Discrete


def candidates(count: int) -> list[Candidate]:
    """Policies with different weights."""
    torch.manual_seed(0)
    spec = PolicySpec.default("rlpipe.modules.torch.ppo.PPOModule", Box.uniform(-5, 5, (4,)), Discrete(2))
    return [Candidate(policy_id=f"p{index}", snapshot=snapshot_of(spec.build())) for index in range(count)]


def seconds(found: Sequence[Candidate], order: Order, pool: WorkerPool) -> float:
    """How long they take; all have to be proven."""
    started = time.perf_counter()
    reports = export_policies(found, order, pool=pool)
    taken = time.perf_counter() - started
    wrong = [row.message for report in reports for row in report.rows if row.status != "ok"]
    if wrong:
        raise SystemExit("\n".join(wrong))
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", type=int, default=20)
    parser.add_argument("--target", default="onnx")
    parser.add_argument("--jobs", nargs="*", type=int, default=[1, 2])
    arguments = parser.parse_args()
    found = candidates(arguments.policies)
    options = {arguments.target: resolve(arguments.target).Options()}
    for jobs in arguments.jobs:
        with tempfile.TemporaryDirectory() as made, WorkerPool() as pool:
            order = Order(targets=options, out_dir=Path(made), jobs=jobs)
            rates = [60 * len(found) / seconds(found, order, pool) for _ in ("cold", "warm")]
        sys.stdout.write(
            f"{arguments.target}, jobs={jobs}: {rates[0]:.0f} policies a minute cold, {rates[1]:.0f} warm\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
