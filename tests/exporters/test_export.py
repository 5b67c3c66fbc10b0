"""From a policy's snapshot to a folder of proven files; they are read by onnxruntime and torch alone."""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import ArtifactError, ConfigError, IdError, ObservationError
from rlpipe.exporters.export import Candidate, Order, export_policies
from rlpipe.exporters.report import ExportReport
from rlpipe.exporters.targets import onnx as onnx_target
from rlpipe.exporters.targets import torch_export
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.policies.stages import Normalize
from rlpipe.snapshot.identity import content_hash, inference_hash
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from tests.exporters import networks
from tests.exporters.exporting import Exporter
from tests.exporters.graphs import unbounded

Array = np.ndarray[Any, Any]
MODULES = "rlpipe.modules.torch"
BESIDE = ("REPORT.md", "artifact.json", "example.cpp", "example.py", "golden.json", "golden.npz")
ONNX = {"onnx": onnx_target.Options()}
BOTH = {**ONNX, "torch_export": torch_export.Options()}


def policy_of(module: str, observation_space: Space, action_space: Space, *, normalise: bool = False) -> Policy:
    torch.manual_seed(0)
    spec = PolicySpec.default(f"{MODULES}.{module}", observation_space, action_space)
    if not normalise:
        return spec.build()
    rng = np.random.default_rng(0)
    size = observation_space.flat(observation_space.sample(1, rng), "")[""].size
    stage = Normalize(formula="var_eps", eps=1e-8, clip=10.0)
    statistics = {"normalize": {"mean": rng.normal(1000, 3, size), "var": rng.uniform(0.01, 2, size)}}
    normal = replace(spec, observation=(*spec.observation, stage))
    return Policy(normal, normal.module.build(), statistics=statistics, metadata={"trained": True})


def own_network(kind: type[torch.nn.Module]) -> Snapshot:
    torch.manual_seed(0)
    spec = PolicySpec.default(
        f"{MODULES}.torch_module.TorchModule",
        unbounded(4),
        Discrete(2),
        model_config={"class": f"tests.exporters.networks.{kind.__name__}", "output": "logits"},
        trust=("tests.*",),
    )
    return snapshot_of(spec.build(trust=("tests.*",)))


def run_onnx(file: Path, feeds: dict[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


@dataclass(frozen=True)
class Exported:
    policy: Policy
    snapshot: Snapshot
    report: ExportReport
    out_dir: Path

    @property
    def folder(self) -> Path:
        return self.out_dir / "p0"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, export_policy: Exporter) -> Exported:
    """A PPO policy with a normaliser, in both targets."""
    policy = policy_of("ppo.PPOModule", unbounded(6), Box.uniform(-2, 2, (3,)), normalise=True)
    snapshot, out_dir = snapshot_of(policy), tmp_path_factory.mktemp("exported")
    report = export_policy(snapshot, "p0", targets=BOTH, out_dir=out_dir, provenance={"task": "export"})
    return Exported(policy, snapshot, report, out_dir)


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_folder_holds_one_file_per_target_and_the_record(exported: Exported) -> None:
    assert exported.report.ok
    assert exported.report.folder == exported.folder
    assert files_in(exported.folder) == [*BESIDE, "onnx/policy.onnx", "torch_export/policy.pt2", "verify.py"]
    assert [path.name for path in exported.out_dir.iterdir()] == ["p0"]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch warns about its own code
@pytest.mark.parametrize("batch", [1, 2, 7, 33, 256])
def test_other_programs_act_like_the_policy(exported: Exported, batch: int) -> None:
    observations = np.random.default_rng(batch).normal(1000, 3, (batch, 6)).astype(np.float32)
    expected = exported.policy.compute_actions(observations)
    (found,) = run_onnx(exported.folder / "onnx" / "policy.onnx", {"obs": observations})
    np.testing.assert_allclose(found, expected, atol=1e-5)
    program = torch.export.load(exported.folder / "torch_export" / "policy.pt2").module()
    np.testing.assert_allclose(program(torch.tensor(observations)).numpy(), expected, atol=1e-5)


def test_rows_say_what_was_measured(exported: Exported) -> None:
    for row in exported.report.rows:
        file = exported.out_dir / row.file
        assert (row.status, row.size, row.sha256) == ("ok", file.stat().st_size, sha256(file.read_bytes()).hexdigest())
        assert row.max_error is not None
        assert row.max_error <= 1e-5
        assert row.tolerance == 1e-5
        assert row.verification is not None
        assert row.verification.observations["statistics"] == 128
    assert json.loads(json.dumps(exported.report.to_json()))["targets"][0]["target"] == "onnx"


def test_the_record_says_what_it_is(exported: Exported) -> None:
    record = json.loads((exported.folder / "artifact.json").read_text())
    assert (record["format"], record["version"], record["policy_id"]) == ("rlpipe-artifact", 0, "p0")
    assert record["inference_hash"] == inference_hash(exported.snapshot)
    assert record["content_hash"] == content_hash(exported.snapshot)
    assert record["fingerprint"] == record["inference_hash"][:12] == exported.report.fingerprint
    assert record["trained"] is True
    assert record["observation_space"] == exported.snapshot.spec.config["observation_space"]
    assert [stage["type"] for stage in record["stages"]["observation"]] == ["normalize"]
    assert [put["name"] for side in record["signature"].values() for put in side] == ["obs", "action"]
    assert record["provenance"] == {"task": "export"}
    assert {"python", "rlpipe", "torch", "onnx"} <= record["versions"].keys()
    for target_id, row in zip(BOTH, exported.report.rows, strict=True):
        entry = record["targets"][target_id]
        assert (entry["status"], entry["sha256"], entry["size"]) == ("ok", row.sha256, row.size)
        assert (exported.folder / entry["file"]).is_file()
        assert entry["verification"]["max_error"] <= entry["options"]["atol"]


def test_the_files_name_their_policy(exported: Exported) -> None:
    props = {prop.key: prop.value for prop in onnx.load(exported.folder / "onnx" / "policy.onnx").metadata_props}
    assert props["rlpipe.fingerprint"] == exported.report.fingerprint
    assert json.loads(props["rlpipe.signature"])["inputs"][0]["shape"] == ["batch", 6]
    assert props["rlpipe.trained"] == "true"


def test_no_path_user_or_host_is_recorded(exported: Exported) -> None:
    private = [str(exported.out_dir), str(Path.cwd()), str(Path.home()) + "/", sys.prefix, f"/{getpass.getuser()}/"]
    private += [socket.gethostname()] if len(socket.gethostname()) > 5 else []
    for name in files_in(exported.folder):
        data = (exported.folder / name).read_bytes()
        assert [text for text in private if text.encode() in data] == [], name


def test_no_critic_is_inside(exported: Exported) -> None:
    model = onnx.load(exported.folder / "onnx" / "policy.onnx")
    names = " ".join(tensor.name for tensor in model.graph.initializer)
    assert "pi" in names
    assert "vf" not in names
    assert "critic" not in names
    data = (exported.folder / "torch_export" / "policy.pt2").read_bytes()
    assert b"vf." not in data
    assert b"critic_encoder" not in data


def test_again_from_the_slim_policy_the_same_bytes(exported: Exported, tmp_path: Path, export_policy: Exporter) -> None:
    slim = select(exported.snapshot, Selection(roles=frozenset({"inference"})))
    report = export_policy(slim, "other", targets=ONNX, out_dir=tmp_path)
    assert report.ok
    assert report.fingerprint == exported.report.fingerprint
    first, second = exported.folder / "onnx" / "policy.onnx", tmp_path / "other" / "onnx" / "policy.onnx"
    assert first.read_bytes() == second.read_bytes()


MIXED = Dict(
    {"camera": Box.uniform(0, 255, (5, 5), np.uint8), "mode": Discrete(3, start=4), "buttons": MultiBinary((2,))}
)
KINDS = {
    "shifted choice": ("ppo.PPOModule", unbounded(4), Discrete(3, start=5)),
    "choices": ("ppo.PPOModule", MultiDiscrete(np.array([3, 2])), MultiDiscrete(np.array([2, 3]))),
    "switches": ("ppo.PPOModule", Box.uniform(-1, 1, (2, 3), np.float64), MultiBinary((4,))),
    "parts": ("dqn.DQNModule", MIXED, Discrete(2)),
    "squashed": ("sac.SACModule", unbounded(5), Box(np.array([-1, 0], "f4"), np.array([1, 500], "f4"), np.dtype("f4"))),
    "wide": ("ppo.PPOModule", unbounded(4), Box.uniform(-np.inf, np.inf, (2, 2))),
}


@pytest.mark.parametrize(("module", "observation_space", "action_space"), KINDS.values(), ids=KINDS)
def test_every_kind_of_space(
    module: str, observation_space: Space, action_space: Space, tmp_path: Path, export_policy: Exporter
) -> None:
    policy = policy_of(module, observation_space, action_space)
    report = export_policy(snapshot_of(policy), "p", targets=ONNX, out_dir=tmp_path)
    (row,) = report.rows
    assert (row.status, row.message) == ("ok", "")
    observations = observation_space.sample(9, np.random.default_rng(5))
    (found,) = run_onnx(tmp_path / row.file, observation_space.flat(observations, "obs"))
    expected = policy.compute_actions(observations)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert action_space.contains(found)


def test_recorded_observations_are_checked_too(tmp_path: Path, export_policy: Exporter) -> None:
    snapshot = snapshot_of(policy_of("ppo.PPOModule", unbounded(4), Discrete(2)))
    recorded = np.ones((10, 4), np.float32)
    report = export_policy(snapshot, "p", targets=ONNX, out_dir=tmp_path, extra_observations=recorded)
    verification = report.rows[0].verification
    assert verification is not None
    assert verification.observations["recorded"] == 10


def test_recorded_observations_that_do_not_fit_are_an_error(tmp_path: Path, export_policy: Exporter) -> None:
    snapshot = snapshot_of(policy_of("ppo.PPOModule", unbounded(4), Discrete(2)))
    with pytest.raises(ObservationError):
        export_policy(snapshot, "p", targets=ONNX, out_dir=tmp_path, extra_observations=np.ones((10, 5), np.float32))
    assert list(tmp_path.iterdir()) == []


def test_own_networks_export_too(tmp_path: Path, export_policy: Exporter) -> None:
    report = export_policy(own_network(networks.Plain), "p", targets=ONNX, out_dir=tmp_path, trust=("tests.*",))
    assert report.ok


def test_an_untrusted_network_is_not_imported(tmp_path: Path, export_policy: Exporter) -> None:
    report = export_policy(own_network(networks.Plain), "p", targets=ONNX, out_dir=tmp_path)
    assert (report.rows[0].status, report.folder) == ("failed", None)
    assert "not trusted and was not imported" in report.rows[0].message


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (networks.FixesBatch, "net (FixesBatch) fixes the batch size"),
        (networks.LearnsWhileActing, "module.net.seen"),
        (networks.PicksAtRandom, "differently twice"),
    ],
)
def test_what_cannot_be_exported_leaves_nothing(
    kind: type[torch.nn.Module], said: str, tmp_path: Path, export_policy: Exporter
) -> None:
    report = export_policy(own_network(kind), "p", targets=BOTH, out_dir=tmp_path, trust=("tests.*",))
    assert [row.status for row in report.rows] == ["unsupported", "unsupported"]
    assert all(said in row.message for row in report.rows)
    assert (report.ok, report.folder) == (False, None)
    assert list(tmp_path.iterdir()) == []


def test_an_own_module_is_named(tmp_path: Path, export_policy: Exporter) -> None:
    torch.manual_seed(0)
    trust = ("tests.*",)
    spec = PolicySpec.default("tests.exporters.networks.BranchingModule", unbounded(4), Discrete(2), trust=trust)
    report = export_policy(snapshot_of(spec.build(trust=trust)), "p", targets=ONNX, out_dir=tmp_path, trust=trust)
    assert report.rows[0].status == "unsupported"
    assert report.rows[0].message.startswith("module (BranchingModule) takes Python decisions")


def test_a_run_that_is_stopped_leaves_everything_as_it_was(exported: Exported, tmp_path: Path) -> None:
    before = copied(exported, tmp_path)

    def stop(policy_id: str, target_id: str) -> None:
        if target_id == "torch_export":
            raise KeyboardInterrupt

    order = Order(targets=BOTH, out_dir=tmp_path, on_target=stop)
    with pytest.raises(KeyboardInterrupt):
        export_policies([Candidate(policy_id="p0", snapshot=exported.snapshot)], order)
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["p0"]


def test_one_target_that_fails_stops_no_other(tmp_path: Path, export_policy: Exporter) -> None:
    report = export_policy(own_network(networks.Bessel), "p", targets=BOTH, out_dir=tmp_path, trust=("tests.*",))
    assert [row.status for row in report.rows] == ["unsupported", "ok"]
    assert "bessel_j0" in report.rows[0].message
    assert not report.ok
    beside = [name for name in BESIDE if name != "example.cpp"]
    assert files_in(tmp_path / "p") == [*beside, "torch_export/policy.pt2", "verify.py"]
    record = json.loads((tmp_path / "p" / "artifact.json").read_text())
    assert record["targets"]["onnx"]["status"] == "unsupported"
    assert "bessel_j0" in record["targets"]["onnx"]["message"]
    assert "file" not in record["targets"]["onnx"]


IMPOSSIBLE = {"onnx": onnx_target.Options(atol=1e-30, rtol=0.0)}


def test_a_file_that_differs_is_not_kept(exported: Exported, tmp_path: Path, export_policy: Exporter) -> None:
    report = export_policy(exported.snapshot, "p", targets=IMPOSSIBLE, out_dir=tmp_path)
    (row,) = report.rows
    assert (row.status, row.file, report.folder) == ("mismatch", "", None)
    assert row.max_error is not None
    assert row.max_error > 0
    assert "acts differently on" in row.message
    assert list(tmp_path.iterdir()) == []


def copied(exported: Exported, tmp_path: Path) -> dict[str, bytes]:
    shutil.copytree(exported.out_dir, tmp_path, dirs_exist_ok=True)
    return contents(tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files_in(folder)}


def test_a_failure_leaves_the_older_artifact_alone(exported: Exported, tmp_path: Path, export_policy: Exporter) -> None:
    before = copied(exported, tmp_path)
    assert not export_policy(exported.snapshot, "p0", targets=IMPOSSIBLE, out_dir=tmp_path).ok
    assert contents(tmp_path) == before


def test_the_same_policy_keeps_its_other_targets(exported: Exported, tmp_path: Path, export_policy: Exporter) -> None:
    before = copied(exported, tmp_path)
    looser = {"onnx": onnx_target.Options(atol=1e-4)}
    assert export_policy(exported.snapshot, "p0", targets=looser, out_dir=tmp_path).ok
    after = contents(tmp_path)
    assert after["p0/torch_export/policy.pt2"] == before["p0/torch_export/policy.pt2"]
    targets = json.loads(after["p0/artifact.json"])["targets"]
    assert targets["torch_export"] == json.loads(before["p0/artifact.json"])["targets"]["torch_export"]
    assert targets["onnx"]["options"]["atol"] == 1e-4


def test_another_policy_replaces_all_of_it(exported: Exported, tmp_path: Path, export_policy: Exporter) -> None:
    copied(exported, tmp_path)
    other = snapshot_of(policy_of("dqn.DQNModule", unbounded(4), Discrete(2)))
    assert export_policy(other, "p0", targets=ONNX, out_dir=tmp_path).ok
    assert files_in(tmp_path / "p0") == [*BESIDE, "onnx/policy.onnx", "verify.py"]


def test_other_folders_are_not_replaced(tmp_path: Path, export_policy: Exporter) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "thesis.txt").write_text("years of work")
    snapshot = snapshot_of(policy_of("dqn.DQNModule", unbounded(4), Discrete(2)))
    with pytest.raises(ArtifactError, match="is no artifact, so it is not replaced"):
        export_policy(snapshot, "p", targets=ONNX, out_dir=tmp_path)
    assert files_in(tmp_path) == ["p/thesis.txt"]


def test_a_file_in_the_way_of_the_folder(tmp_path: Path, export_policy: Exporter) -> None:
    (tmp_path / "taken").write_text("")
    snapshot = snapshot_of(policy_of("dqn.DQNModule", unbounded(4), Discrete(2)))
    with pytest.raises(ArtifactError):
        export_policy(snapshot, "p", targets=ONNX, out_dir=tmp_path / "taken")


@pytest.mark.parametrize("policy_id", ["../p", "", "con"])
def test_ids_that_name_no_folder(policy_id: str, tmp_path: Path, export_policy: Exporter) -> None:
    snapshot = snapshot_of(policy_of("dqn.DQNModule", unbounded(4), Discrete(2)))
    with pytest.raises(IdError):
        export_policy(snapshot, policy_id, targets=ONNX, out_dir=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_target(tmp_path: Path, export_policy: Exporter) -> None:
    snapshot = snapshot_of(policy_of("dqn.DQNModule", unbounded(4), Discrete(2)))
    with pytest.raises(ConfigError, match="did you mean onnx"):
        export_policy(snapshot, "p", targets={"onx": onnx_target.Options()}, out_dir=tmp_path)


def test_a_missing_package_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export_policy: Exporter
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    snapshot = snapshot_of(policy_of("dqn.DQNModule", unbounded(4), Discrete(2)))
    report = export_policy(snapshot, "p", targets=ONNX, out_dir=tmp_path)
    (row,) = report.rows
    assert (row.status, report.folder) == ("unavailable", None)
    assert "pip install onnxscript" in row.message


def test_weights_that_are_no_numbers_fail(tmp_path: Path, export_policy: Exporter) -> None:
    policy = policy_of("dqn.DQNModule", unbounded(4), Discrete(2))
    with torch.no_grad():
        policy.module.get_parameter("q.weight")[0, 0] = torch.nan
    report = export_policy(snapshot_of(policy), "p", targets=ONNX, out_dir=tmp_path)
    assert report.rows[0].status == "failed"
    assert "no number for 160 of 160 samples" in report.rows[0].message
    assert list(tmp_path.iterdir()) == []
