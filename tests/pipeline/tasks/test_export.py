from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import rlpipe
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import ConfigError, SelectionError
from rlpipe.exporters.labels import Labels
from rlpipe.exporters.targets import onnx, torch_export
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.runner import run
from rlpipe.pipeline.settings import (
    ExportSettings,
    PolicySettings,
    ProvenanceSettings,
    RunSettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.pipeline.tables import show
from rlpipe.policies.graph_options import GraphOptions
from tests.pipeline.checkpoints import PPO, SAC, Runner, algorithm, box, write

ONNX = ExportSettings(targets={"onnx": onnx.Options()})


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> tuple[Report, Path]:
    """p1 as ONNX, and the run directory."""
    out_dir = tmp_path_factory.mktemp("run")
    settings = RunSettings(
        task="export",
        source=SourceSettings(path=str(checkpoint)),
        select=SelectSettings(policy_ids=("p1",)),
        export=ONNX,
        out_dir=str(out_dir),
        provenance=ProvenanceSettings(overrides=(f"source.path={checkpoint}",), config={"path": str(checkpoint)}),
    )
    return run(settings), out_dir


def test_the_artifact_acts_like_the_policy(exported: tuple[Report, Path], checkpoint: Path) -> None:
    report, out_dir = exported
    assert report.exit_code == 0
    file = out_dir / "p1/onnx/policy.onnx"
    observations = np.random.default_rng(0).uniform(-1, 1, (33, 4)).astype(np.float32)
    (actions,) = onnxruntime.InferenceSession(str(file)).run(None, {"obs": observations})
    policy = rlpipe.restore(checkpoint, policy_ids=["p1"]).policies["p1"]
    np.testing.assert_array_equal(actions, policy.compute_actions(observations))
    (row,) = report.to_json()["policies"][0]["targets"]
    assert row["status"] == "ok"
    assert row["size"] == file.stat().st_size
    assert json.loads((out_dir / "result.json").read_text())["ok"] is True


def test_what_is_written_names_no_place(exported: tuple[Report, Path], checkpoint: Path) -> None:
    record = (exported[1] / "p1/artifact.json").read_text()
    assert str(checkpoint.parent) not in record
    assert "source.path=a@sha256:" in record
    assert json.loads(record)["provenance"]["policy"]["trained"] is False


def test_an_untrained_policy_is_a_warning_and_the_table_has_all(exported: tuple[Report, Path]) -> None:
    assert "p1 was never trained" in exported[0].warnings[0]
    stream = io.StringIO()
    show(exported[0].render(), stream)
    heads = ("policy", "target", "file", "size", "difference", "verdict", "fingerprint")
    (line,) = [line for line in stream.getvalue().splitlines() if line.startswith("policy")]
    assert line.split() == list(heads)


def test_one_that_differs_is_no_success_and_is_not_kept(run_task: Runner, tmp_path: Path) -> None:
    policy = PolicySettings(module=SAC, observation_space=box(4), action_space=box(2))
    source = write(tmp_path / "sac", algorithm(p0=policy))
    report = run_task(
        "export",
        source=SourceSettings(path=str(source)),
        artifact_path="made",
        export=ExportSettings(targets={"onnx": onnx.Options(atol=1e-30, rtol=1e-30)}),
    )
    (row,) = report.to_json()["policies"][0]["targets"]
    assert row["status"] == "mismatch"
    assert report.exit_code == 1
    assert not (tmp_path / "made/p0").exists()


def test_observations_of_the_environment_are_checked_too(run_task: Runner, tmp_path: Path) -> None:
    source = write(tmp_path / "pole", algorithm(p0=PolicySettings(module=PPO, env="CartPole-v1")))
    report = run_task("export", source=SourceSettings(path=str(source)), export=ONNX, out_dir="run")
    assert report.to_json()["recorded_observations"] == {"p0": "64 of CartPole-v1"}
    record = json.loads((tmp_path / "run/p0/artifact.json").read_text())
    assert record["targets"]["onnx"]["verification"]["observations"]["recorded"] == 64
    with pytest.raises(ConfigError):
        run_task("export", source=SourceSettings(path=str(source)), export=ONNX, env="NoSuch-v0", out_dir="run")


def test_a_foreign_file_straight_to_an_artifact(run_task: Runner, tmp_path: Path, sb3_zip: Path) -> None:
    report = run_task("export", source=SourceSettings(path=str(sb3_zip), policy_id="walker"), export=ONNX, out_dir="r")
    assert report.ok
    with np.load(sb3_zip.with_suffix(".npz")) as known:
        session = onnxruntime.InferenceSession(str(tmp_path / "r/walker/onnx/policy.onnx"))
        (actions,) = session.run(None, {"obs": known["observations"]})
        np.testing.assert_allclose(actions, known["actions"], rtol=0, atol=1e-5)


def test_a_policy_that_cannot_be_built_stops_no_other(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "a")
    own = tmp_path / "a/policies/p1"
    policy = read_checkpoint(own)
    module = {**policy.spec.config["module"], "class": "mine.Net"}
    lost = replace(policy, spec=replace(policy.spec, config={**policy.spec.config, "module": module}))
    tree = read_checkpoint(tmp_path / "a")
    container = tree.children["policies"]
    changed = replace(container, children={**container.children, "p1": lost})
    write_checkpoint(replace(tree, children={**tree.children, "policies": changed}), tmp_path / "b")
    report = run_task("export", source=SourceSettings(path="b"), export=ONNX, artifact_path="made")
    rows = {policy["policy_id"]: policy["targets"][0] for policy in report.to_json()["policies"]}
    assert [rows[name]["status"] for name in ("p0", "p1", "p2")] == ["ok", "failed", "ok"]
    assert "mine.Net" in rows["p1"]["message"]
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["p0", "p2"]
    assert report.exit_code == 1


def test_what_is_required_decides(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    targets = {"onnx": onnx.Options(), "torch_export": torch_export.Options(timeout=0.001)}
    for required, code in ((("onnx",), 0), (("torch_export",), 1), (None, 1)):
        report = run_task(
            "export",
            source=SourceSettings(path=str(checkpoint)),
            select=SelectSettings(policy_ids=("p1",)),
            export=ExportSettings(targets=targets, require=required),
            artifact_path="made",
        )
        rows = report.to_json()["policies"][0]["targets"]
        assert [row["status"] for row in rows] == ["ok", "failed"]
        assert report.exit_code == code


def test_names_have_to_fit(run_task: Runner, checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match=r"artifact.names does not fit p0"):
        run_task(
            "export", source=SourceSettings(path=str(checkpoint)), export=ONNX, labels=Labels(names={"obs": ("a",)})
        )


def test_no_target_and_no_such_policy(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(ConfigError):
        run_task("export", source=SourceSettings(path=str(checkpoint)), out_dir="run")
    with pytest.raises(SelectionError):
        run_task(
            "export",
            source=SourceSettings(path=str(checkpoint)),
            select=SelectSettings(policy_ids=("p1", "p9")),
            export=ONNX,
            out_dir="run",
        )
    assert not (tmp_path / "run/p1").exists()


def test_a_policy_that_remembers_is_exported_from_its_checkpoint(run_task: Runner, tmp_path: Path) -> None:
    lstm = {"type": "lstm", "hidden_size": 8, "num_layers": 2}
    module = replace(PPO, model_config={"actor": lstm, "critic": lstm})
    path = write(tmp_path / "made", algorithm(p0=PolicySettings(module=module, env="CartPole-v1")))
    report = run_task("export", source=SourceSettings(path=str(path)), export=ONNX, artifact_path=str(tmp_path / "out"))
    assert report.ok
    policy = rlpipe.restore(path).policies["p0"]
    session = onnxruntime.InferenceSession(tmp_path / "out" / "p0" / "onnx" / "policy.onnx")
    assert [one.name for one in session.get_inputs()] == ["obs", "state.0", "state.1", "episode_start"]
    x = np.random.default_rng(0).normal(size=(20, 3, 4)).astype(np.float32)
    fed = {name: np.zeros((3, 2, 8), np.float32) for name in ("state.0", "state.1")}
    state = None
    for step in range(20):
        starts = np.full(3, step == 0) | (np.arange(3) == step - 5)
        action, *fed_next = session.run(None, {"obs": x[step], **fed, "episode_start": starts})
        expected, state = policy.step(x[step], state, episode_start=starts)
        fed = dict(zip(fed, fed_next, strict=True))
        np.testing.assert_array_equal(action, expected)
        for name, array in fed.items():
            np.testing.assert_allclose(array, state[name], atol=1e-5)


def test_what_is_exported_can_be_chosen(run_task: Runner, tmp_path: Path) -> None:
    path = write(tmp_path / "made", algorithm(p0=PolicySettings(module=PPO, env="CartPole-v1")))
    graph = GraphOptions(mode="stochastic", outputs=("logits", "value"))
    report = run_task(
        "export",
        source=SourceSettings(path=str(path)),
        export=replace(ONNX, graph=graph),
        artifact_path=str(tmp_path / "out"),
    )
    assert report.ok
    record = json.loads((tmp_path / "out" / "p0" / "artifact.json").read_text())
    assert (record["mode"], record["outputs"]) == ("stochastic", ["logits", "value"])
    session = onnxruntime.InferenceSession(tmp_path / "out" / "p0" / "onnx" / "policy.onnx")
    assert [one.name for one in session.get_inputs()] == ["obs", "noise"]
    assert [one.name for one in session.get_outputs()] == ["action", "logits", "value"]


def test_an_encoder_is_exported_alone(run_task: Runner, tmp_path: Path) -> None:
    path = write(tmp_path / "made", algorithm(p0=PolicySettings(module=PPO, env="CartPole-v1")))
    chosen = replace(ONNX, graph=GraphOptions(component="encoder"))
    place = {"source": SourceSettings(path=str(path)), "artifact_path": str(tmp_path / "out")}
    assert run_task("export", export=chosen, **place).ok
    session = onnxruntime.InferenceSession(tmp_path / "out" / "p0" / "onnx" / "policy.onnx")
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    module = rlpipe.restore(path).policies["p0"].module
    weight, bias = (
        module.get_parameter(f"encoder.actor_encoder.0.{name}").detach().numpy() for name in ("weight", "bias")
    )
    np.testing.assert_allclose(session.run(["features"], {"obs": x})[0], np.tanh(x @ weight.T + bias), atol=1e-6)


def test_what_the_policy_has_not_is_a_row_that_says_so(run_task: Runner, tmp_path: Path) -> None:
    path = write(tmp_path / "made", algorithm(p0=PolicySettings(module=PPO, env="CartPole-v1")))
    for graph, named in (
        (GraphOptions(action="target"), "target stages"),
        (GraphOptions(component="encodr"), "did you mean encoder"),
        (GraphOptions(outputs=("mean",)), "logits for choices"),
    ):
        report = run_task(
            "export",
            source=SourceSettings(path=str(path)),
            export=replace(ONNX, graph=graph),
            artifact_path=str(tmp_path / "out"),
        )
        (row,) = report.exports[0].rows  # type: ignore[attr-defined]
        assert row.status == "unsupported"
        assert named in row.message
