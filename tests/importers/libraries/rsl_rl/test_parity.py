"""rsl_rl itself, where it is installed: its runner trains, and what is imported acts as its policy does."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.checkpoint.restore import build
from rlpipe.importers.libraries.rsl_rl import Options, read

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("rsl_rl", reason="rsl-rl-lib is not installed")

from tests.importers.rsl_rl_runs import Case, major, played, save, trained  # noqa: E402

WIDE = ("policy", "privileged")
CASES = {
    "mlp": Case(),
    "plain": Case(normalised=False, activation="crelu"),
    "asymmetric": Case(critic=WIDE, std="log", activation="lrelu"),
    "groups": Case(actor=("policy", "extra"), critic=WIDE),
    "lstm": Case(memory="lstm", layers=2),
    "gru": Case(memory="gru", critic=WIDE, activation="selu"),
    "student": Case(distilled=True, critic=WIDE),
    "recurrent_student": Case(distilled=True, memory="gru", normalised=False),
}


def run(case: Case, folder: Path) -> tuple[Any, Path]:
    """A runner that has learned a little, and its checkpoint."""
    path = folder / "model_2.pt"
    with contextlib.redirect_stdout(io.StringIO()):
        runner = trained(case)
        save(runner, path)
    return runner, path


def imported(case: Case, path: Path) -> Any:
    options = Options(params="none", activation="celu" if case.activation == "crelu" else case.activation)
    return build(read(path, options).snapshot)


@pytest.mark.parametrize("name", CASES)
def test_an_imported_policy_acts_as_the_librarys(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    runner, path = run(case, tmp_path)
    policy, state = imported(case, path), None
    rows = played(runner, case)
    for observations, starts, actions in zip(rows["observations"], rows["starts"], rows["actions"], strict=True):
        if not case.memory:
            found = policy.compute_actions(observations)
        else:
            step = policy.step(observations, state, episode_start=starts)
            found, state = step.actions, step.state
        np.testing.assert_allclose(found, actions, rtol=0, atol=2e-6)


@pytest.mark.skipif(major() < 4, reason="the library has an exporter of its own since version 4")
@pytest.mark.parametrize("name", ["mlp", "plain", "groups", "lstm", "gru"])
def test_the_librarys_own_onnx_acts_the_same(name: str, tmp_path: Path) -> None:
    import onnxruntime

    case = CASES[name]
    runner, path = run(case, tmp_path)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        runner.export_policy_to_onnx(str(tmp_path), "policy.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    policy, state = imported(case, path), None
    memory = {port.name: np.zeros(port.shape, np.float32) for port in session.get_inputs()[1:]}
    size = policy.spec.observation_space.shape[0]
    for observation in 10 * torch.randn(64, 1, size, generator=torch.Generator().manual_seed(1)).numpy():
        expected, *kept = session.run(None, {"obs": observation, **memory})
        memory = dict(zip(memory, kept, strict=True))
        step = policy.step(observation, state)
        state = step.state
        np.testing.assert_allclose(step.actions, expected, rtol=1e-5, atol=1e-5)
