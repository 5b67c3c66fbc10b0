"""stable-baselines3 zips: imported without the library, without running anything in them, and acting alike."""

import base64
import json
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.acceptance.program import FINGERPRINT, Run, digests, run_program

Array = np.ndarray[Any, np.dtype[Any]]
KINDS = (
    "ppo",
    "a2c",
    "dqn",
    "sac",
    "sac_gsde",
    "ppo_multi_discrete",
    "a2c_multi_binary",
    "ppo_discrete",
    "ppo_linear",
    "ppo_start",
    "ppo_squashed",
)
BY_COMMAND = ("ppo", "a2c", "dqn", "sac")


@pytest.fixture(scope="module")
def without_the_library(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which importing stable-baselines3 or cloudpickle fails."""
    folder = tmp_path_factory.mktemp("blocked")
    for name in ("stable_baselines3", "cloudpickle"):
        (folder / f"{name}.py").write_text("raise ImportError('the trainer is not needed')\n")
    root = Path(__file__).resolve().parents[2]
    return {"PYTHONPATH": f"{root}:{folder}"}


@pytest.fixture(scope="module")
def import_file(
    tmp_path_factory: pytest.TempPathFactory, foreign: Path, without_the_library: dict[str, str]
) -> Callable[..., Run]:
    """Runs `task=save source.path=<kind>/model.zip checkpoint.path=made` in a folder of its own."""

    def run(kind: str, *more: str) -> Run:
        return run_program(
            "task=save",
            f"source.path={foreign / kind / 'model.zip'}",
            "checkpoint.path=made",
            *more,
            folder=tmp_path_factory.mktemp(kind),
            environment=without_the_library,
        )

    return run


def expected(foreign: Path, kind: str) -> tuple[Array, Array]:
    """Observations and the trainer's own deterministic actions."""
    with np.load(foreign / kind / "expected.npz") as stored:
        return stored["observations"], stored["actions"]


def assert_same_actions(found: Array, trainer: Array) -> None:
    """Discrete actions equal; continuous ones within 1e-6 of the action range."""
    assert found.shape == trainer.shape
    if np.issubdtype(trainer.dtype, np.integer):
        np.testing.assert_array_equal(found, trainer)
    else:
        reach = max(1.0, float(np.ptp(trainer)))
        np.testing.assert_allclose(found, trainer, rtol=0, atol=1e-6 * reach)


def policy_in(path: Path, policy_id: str = "p0") -> Any:
    """The policy of a checkpoint through the Python API."""
    import rlpipe

    found = rlpipe.Policy.from_checkpoint(path, policy_ids=[policy_id])
    return found[policy_id] if isinstance(found, dict) else found


@pytest.mark.parametrize(
    "kind", ["ppo", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "ppo")]
)
def test_imported_policies_act_like_the_trainers(import_file: Callable[..., Run], foreign: Path, kind: str) -> None:
    run = import_file(kind).succeeded()
    assert re.search(FINGERPRINT, run.out)
    observations, actions = expected(foreign, kind)
    assert_same_actions(policy_in(run.folder / "made").compute_actions(observations), actions)


@pytest.mark.slow
def test_statistics_beside_the_zip_are_found_proven_and_applied(
    foreign: Path, tmp_path: Path, without_the_library: dict[str, str]
) -> None:
    for name, statistics in (("model.zip", "sac_normalised"), ("vecnormalize.pkl", "sac_normalised_statistics")):
        (tmp_path / name).write_bytes((foreign / statistics / name).read_bytes())
    run = run_program(
        "task=export",
        "source.path=model.zip",
        "source.policy_id=pole",
        folder=tmp_path,
        environment=without_the_library,
    ).succeeded()
    assert "vecnormalize" in run.text.lower()
    assert "pole" in run.out
    observations, actions = expected(foreign, "sac_normalised")
    np.savez(tmp_path / "feeds.npz", whole=observations)
    (onnx,), (program,) = tmp_path.rglob("*.onnx"), tmp_path.rglob("*.pt2")
    script = Path(__file__).with_name("run_artifacts.py")
    command = [sys.executable, "-I", str(script), "feeds.npz", "results.npz", str(onnx), str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "results.npz") as results:
        for name in results.files:
            np.testing.assert_allclose(results[name], actions, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["ppo_normalised", pytest.param("sac_normalised", marks=pytest.mark.slow)])
def test_statistics_may_be_given_by_path(import_file: Callable[..., Run], foreign: Path, kind: str) -> None:
    given = foreign / f"{kind}_statistics" / "vecnormalize.pkl"
    run = import_file(kind, f"source.normalizer={given}", "source.policy_id=swinger").succeeded()
    observations, actions = expected(foreign, kind)
    assert_same_actions(policy_in(run.folder / "made", "swinger").compute_actions(observations), actions)
    dtypes = {key: dtype for key, (dtype, _, _) in digests(run.folder / "made/policies/swinger").items()}
    statistics = {dtype for key, dtype in dtypes.items() if key.startswith("observation/") and "mean" in key}
    assert statistics == {"float64"}


def test_missing_statistics_are_an_error_that_says_so(import_file: Callable[..., Run]) -> None:
    run = import_file("ppo_normalised").failed(1)
    assert "vecnormalize" in run.text.lower()
    assert "source.normalizer" in run.text, "what to do"
    assert not (run.folder / "made").exists()


@pytest.mark.slow
def test_no_statistics_can_be_insisted_on(import_file: Callable[..., Run]) -> None:
    import_file("ppo_normalised", "source.normalizer=none").succeeded()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ppo_normalised", "sac_normalised"])
def test_statistics_of_another_policy_are_refused(foreign: Path, tmp_path: Path, kind: str) -> None:
    """The zip keeps its last observation raw and normalised; these statistics do not turn one into the other."""
    (tmp_path / "model.zip").write_bytes((foreign / kind / "model.zip").read_bytes())
    (tmp_path / "vecnormalize.pkl").write_bytes((foreign / f"{kind}_statistics" / "stranger.pkl").read_bytes())
    run_program("task=save", "source.path=model.zip", "checkpoint.path=made", folder=tmp_path).failed(1)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["nan", pytest.param("infinite", marks=pytest.mark.slow)])
def test_statistics_that_are_no_numbers_are_refused(import_file: Callable[..., Run], foreign: Path, name: str) -> None:
    given = foreign / "ppo_normalised_statistics" / f"{name}.pkl"
    run = import_file("ppo_normalised", f"source.normalizer={given}").failed(1)
    assert "mean" in run.text
    assert not (run.folder / "made").exists()


class Evil:
    """Unpickling this leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, (f"open({str(self.mark)!r}, 'w').close()",))


@pytest.mark.slow
@pytest.mark.parametrize("field", ["lr_schedule", "action_space"])
def test_nothing_in_a_zip_is_run(foreign: Path, tmp_path: Path, field: str) -> None:
    mark = tmp_path / "mark"
    with (
        zipfile.ZipFile(foreign / "ppo" / "model.zip") as read,
        zipfile.ZipFile(tmp_path / "model.zip", "w") as write,
    ):
        for name in read.namelist():
            data = read.read(name)
            if name == "data":
                fields = json.loads(data)
                fields[field][":serialized:"] = base64.b64encode(pickle.dumps(Evil(mark))).decode()
                data = json.dumps(fields).encode()
            write.writestr(name, data)
    run = run_program("task=save", "source.path=model.zip", "checkpoint.path=made", folder=tmp_path)
    assert run.code in (0, 1), str(run)
    assert not mark.exists()


def test_nothing_in_statistics_is_run(import_file: Callable[..., Run], tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Evil(mark)))
    import_file("ppo_normalised", f"source.normalizer={tmp_path / 'evil.pkl'}").failed(1)
    assert not mark.exists()
