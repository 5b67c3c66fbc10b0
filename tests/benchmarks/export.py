"""How fast artifacts act compared with eager torch: ratios of medians from one interleaved run.

    python tests/benchmarks/export.py [--rounds 9] [--case mlp ...] [--target onnx numpy ...]

One observation at a time, one thread. Run by hand on a quiet machine; absolute times mean little, ratios within one run
do. Python runtimes take and give numpy arrays; C runs inside of a C program, built with -O3 -march=native.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rlpipe.exporters.capture import captured
from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.signature import Signature, TensorSpec
from rlpipe.exporters.target import resolve

Array = np.ndarray[Any, Any]
Measure = Callable[[], float]
WINDOW = 0.05
"""Seconds of each measurement."""

TIMER = """
#define _POSIX_C_SOURCE 199309L
#include "policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}
static int rising(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}
int main(void)
{
    static policy_state state;
    static policy_input input;
    static double times[100000];
    policy_output output;
    int n = 0;
    policy_init(&state);
    const double before = now();
    policy_step(&state, &input, &output);
    const int calls = now() - before < 20 ? 20 : 1;
    for (const double end = now() + WINDOW_US; n < 100000 && (n < 3 || now() < end); ++n) {
        const double start = now();
        for (int i = 0; i < calls; ++i) {
            policy_step(&state, &input, &output);
            ((volatile unsigned char *)&input)[i % (int)sizeof input] ^= 1;
        }
        times[n] = (now() - start) / calls;
    }
    qsort(times, (size_t)n, sizeof times[0], rising);
    printf("%.4f", times[n / 2]);
    return 0;
}
"""


class Plain(nn.Module):
    """Normalised observations (B, 24) through hidden layers to (B, 6), clipped."""

    def __init__(self, width: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.mean: torch.Tensor
        self.std: torch.Tensor
        self.register_buffer("mean", torch.randn(24))
        self.register_buffer("std", torch.rand(24) + 0.5)
        layers = [nn.Linear(24, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, 6)]
        self.net = nn.Sequential(*layers)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        normal = torch.clamp((obs - self.mean) / self.std, -10, 10)
        return torch.clamp(self.net(normal), -1, 1)


class Recurrent(nn.Module):
    """(B, 24), the memory of an LSTM or GRU of 128, whether an episode starts -> (B, 6), the memory."""

    def __init__(self, kind: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.first, self.memory, self.last = nn.Linear(24, 64), kind(64, 128, batch_first=True), nn.Linear(128, 6)

    def forward(self, obs: torch.Tensor, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *states, start = given
        kept = [torch.where(start[:, None, None], 0.0, state).transpose(0, 1).contiguous() for state in states]
        features = torch.tanh(self.first(obs)).unsqueeze(1)
        features, following = self.memory(features, tuple(kept) if len(kept) > 1 else kept[0])
        following = following if isinstance(following, tuple) else (following,)
        return torch.tanh(self.last(features[:, 0])), *(state.transpose(0, 1) for state in following)


class Images(nn.Module):
    """The CNN of the Nature paper on (B, 84, 84, 4) uint8."""

    def __init__(self) -> None:
        super().__init__()
        convs = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()]
        self.net = nn.Sequential(*convs, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs.permute(0, 3, 1, 2).to(torch.float32) / 255).argmax(dim=1)


@dataclass(frozen=True)
class Case:
    """A network between named tensors."""

    make: Callable[[], nn.Module]
    inputs: Mapping[str, tuple[str, tuple[int, ...]]]
    outputs: Mapping[str, tuple[str, tuple[int, ...]]]

    def traced(self) -> ExportGraph:
        torch.manual_seed(0)
        sides = [
            tuple(TensorSpec(name=name, dtype=dtype, shape=shape) for name, (dtype, shape) in side.items())
            for side in (self.inputs, self.outputs)
        ]
        signature = Signature(inputs=sides[0], outputs=sides[1])
        rng = np.random.default_rng(0)
        sample = {spec.name: (40 * rng.random((64, *spec.shape))).astype(spec.dtype) for spec in signature.inputs}
        return export_graph(self.make().eval(), signature, sample)


VECTOR = ({"obs": ("float32", (24,))}, {"action": ("float32", (6,))})


def remembering(kind: type[nn.LSTM | nn.GRU], count: int) -> Case:
    """A case with so many tensors of memory."""
    states = {f"state.{index}": ("float32", (1, 128)) for index in range(count)}
    following = {f"{name}.next": spec for name, spec in states.items()}
    inputs = {**VECTOR[0], **states, "episode_start": ("bool", ())}
    return Case(lambda: Recurrent(kind), inputs, {**VECTOR[1], **following})


CASES = {
    "mlp": Case(lambda: Plain(64, nn.Tanh), *VECTOR),
    "wide": Case(lambda: Plain(256, nn.ReLU), *VECTOR),
    "lstm": remembering(nn.LSTM, 2),
    "gru": remembering(nn.GRU, 1),
    "cnn": Case(Images, {"obs": ("uint8", (84, 84, 4))}, {"action": ("int64", ())}),
}


def timed(call: Callable[[], object]) -> Measure:
    """Median microseconds of a call within a window."""

    def measure() -> float:
        times: list[float] = []
        end = time.perf_counter() + WINDOW
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return 1e6 * statistics.median(times)

    return measure


TARGETS = ("onnx", "numpy", "c99", "torchscript", "aot_inductor", "torch_export")


def contenders(graph: ExportGraph, folder: Path, targets: Sequence[str]) -> dict[str, Measure]:
    """Every way to run a graph."""
    one = {name: array[:1] for name, array in graph.sample.items()}

    def eager() -> Any:
        with torch.inference_mode():
            results = graph.module(*(torch.from_numpy(array) for array in one.values()))
        return [tensor.numpy() for tensor in (results if isinstance(results, tuple) else (results,))]

    found = {"eager": timed(eager)}
    for target_id in targets:
        target = resolve(target_id)
        file = folder / target_id / target.FILE_NAME
        file.parent.mkdir()
        with captured():
            target.export(graph, file, target.Options(), {})
            step = None if target_id == "c99" else target.load(str(file))
        found[target_id] = built(folder / "c99") if step is None else timed(lambda step=step: step(one))  # type: ignore[misc]
    return found


def built(folder: Path) -> Measure:
    """The C program, timed inside of itself."""
    (folder / "timer.c").write_text(TIMER.replace("WINDOW_US", f"{1e6 * WINDOW}"))
    flags = ["-std=c99", "-O3", "-march=native"]
    sources = [str(folder / name) for name in ("timer.c", "policy.c")]
    subprocess.run(["cc", *flags, *sources, "-lm", "-o", str(folder / "timer")], check=True)
    subprocess.run(["cc", *flags, "-c", sources[1], "-o", str(folder / "policy.o")], check=True)

    def measure() -> float:
        return float(subprocess.run([folder / "timer"], check=True, capture_output=True).stdout)

    return measure


def start_up(folder: Path) -> str:
    """Import and load of the numpy program in a fresh Python, in seconds of the processor: the least of five."""
    load = "import sys; sys.dont_write_bytecode = True; from policy_np import load; load('policy.npz')"
    with_it, without = (min(processor_seconds(code, folder) for _ in range(5)) for code in (load, "pass"))
    return f"numpy program: import and load {with_it - without:.3f} s"


def processor_seconds(code: str, folder: Path) -> float:
    """What a Python program takes."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--case", nargs="*", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--target", nargs="*", choices=sorted(TARGETS), default=list(TARGETS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.case:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            with captured():
                graph = CASES[name].traced()
            measures = contenders(graph, folder, arguments.target)
            rounds = [{key: measure() for key, measure in measures.items()} for _ in range(arguments.rounds)]
            medians = {key: statistics.median(row[key] for row in rounds) for key in measures}
            ratios = {key: statistics.median(row[key] / row["eager"] for row in rounds) for key in measures}
            texts = [f"{key} {medians[key]:.2f} us ({ratios[key]:.3f})" for key in measures]
            if "c99" in arguments.target:
                texts.append(f"object {(folder / 'c99' / 'policy.o').stat().st_size:,} bytes")
            if "numpy" in arguments.target:
                texts.append(start_up(folder / "numpy"))
            sys.stdout.write(f"{name:5} {'  '.join(texts)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
