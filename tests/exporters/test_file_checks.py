"""What must not be in an artifact's files is found in those of every target."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from onnx import helper
from torch import nn

from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.exporters.capture import captured
from rlpipe.exporters.file_checks import check_files, opened
from rlpipe.exporters.levels import Level
from rlpipe.exporters.target import acts, resolve, target_ids
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import Discrete
from tests.exporters.graphs import greedy, unbounded

QUICK = tuple(name for name in target_ids() if acts(name) and name != "aot_inductor")


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    policy = PolicySpec.default("rlpipe.modules.torch.ppo.PPOModule", unbounded(4), Discrete(3, start=2)).build()
    return snapshot_of(policy)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a right file of every target."""
    place, graph = tmp_path_factory.mktemp("made"), greedy().traced()
    for name in QUICK:
        target = resolve(name)
        (place / name).mkdir()
        with captured():
            target.export(graph, place / name / target.FILE_NAME, target.Options(), {})
    return place


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "made")
    return tmp_path / "made"


def checked(folder: Path, name: str, snapshot: Snapshot) -> Level:
    target = resolve(name)
    return check_files(folder / name, folder / name / target.FILE_NAME, snapshot, target)


@pytest.mark.parametrize("name", QUICK)
def test_a_right_file_has_a_list_of_what_was_looked_for(name: str, folder: Path, snapshot: Snapshot) -> None:
    level = checked(folder, name, snapshot)
    assert level.status == "ok", level.detail
    level = opened(level, greedy().signature, (1, 2, 7), resolve(name).BLOCKED)
    assert list(level.facts) == [
        "files",
        "paths of the author's machine",
        "parameters that only training needs",
        "random and dropout operators",
        "opens in a new process",
        "names, dtypes and shapes",
        "batch",
    ]
    assert level.facts["random and dropout operators"].startswith("none of ")
    assert ("torch" in level.facts["opens in a new process"]) == ("torch" in resolve(name).BLOCKED)


@pytest.mark.parametrize("name", QUICK)
def test_the_place_where_it_was_made_is_found(name: str, folder: Path, snapshot: Snapshot) -> None:
    (folder / name / "notes.txt").write_text(f"made in {folder}/{name}")
    level = checked(folder, name, snapshot)
    assert level.status == "failed"
    assert "notes.txt names" in level.detail


@pytest.mark.parametrize("name", QUICK)
def test_a_critic_is_found(name: str, folder: Path, snapshot: Snapshot) -> None:
    training = [key for key, role in snapshot.roles.items() if role == "training"]
    (folder / name / "names.txt").write_text(training[0].replace("/", "."))
    level = checked(folder, name, snapshot)
    assert level.status == "failed"
    assert "which only training needs" in level.detail


class Drawing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(4, 3)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(self.q(obs) + torch.rand(3)).argmax(dim=1)


def in_onnx(file: Path) -> None:
    model = onnx.load(file)
    node = model.graph.node[0]
    model.graph.node.insert(0, helper.make_node("RandomUniformLike", [node.input[0]], ["drawn"]))
    node.input[0] = "drawn"
    onnx.save(model, file)


def in_torch_export(file: Path) -> None:
    torch.export.save(torch.export.export(Drawing().train(), (torch.zeros(2, 4),)), file)


def in_torchscript(file: Path) -> None:
    with captured():
        traced = torch.jit.trace(Drawing().eval(), torch.zeros(2, 4), check_trace=False)  # type: ignore[no-untyped-call]
        torch.jit.save(traced, file)


def in_c99(file: Path) -> None:
    file.write_text(file.read_text() + "static float noise(void) { return rand() / 100.0f; }\n")


def in_numpy(file: Path) -> None:
    graph = file.with_name("policy.json")
    graph.write_text(graph.read_text().replace('["argmax"', '["bernoulli"', 1))


@pytest.mark.parametrize("seed", [in_onnx, in_torch_export, in_torchscript, in_c99, in_numpy])
def test_random_numbers_are_found(seed: Callable[[Path], None], folder: Path, snapshot: Snapshot) -> None:
    name = seed.__name__.removeprefix("in_")
    assert checked(folder, name, snapshot).status == "ok"
    seed(folder / name / resolve(name).FILE_NAME)
    level = checked(folder, name, snapshot)
    assert level.status == "failed"
    assert "draws random numbers" in level.detail


def test_dropout_that_nobody_trains_is_no_dropout(folder: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).eval()
    file = folder / "torch_export" / "policy.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(2, 4),)), file)
    assert not [name for name in resolve("torch_export").operators(str(file)) if "dropout" in name]  # type: ignore[attr-defined]
