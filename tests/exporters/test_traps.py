"""Every trap of torch 2.13's exporters that was reproduced, by its number, and that it cannot be stepped into here."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from rlpipe.errors import ConfigError, UnsupportedModuleError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.record import versions
from rlpipe.exporters.target import resolve, target_ids
from rlpipe.exporters.verify import verify
from rlpipe.snapshot.spaces import Dict
from tests.exporters.graphs import EXAMPLES, Example, many_inputs, normalised, unbounded
from tests.exporters.program.networks import NETWORKS
from tests.exporters.steps import STEPS, Step

Array = np.ndarray[Any, Any]
QUICK = ("c99", "numpy", "onnx", "torch_export", "torchscript")
"""The targets that act, but for the one that compiles for most of a minute."""

TRAPS = MappingProxyType(
    {
        1: "ONNX falls back to a fixed batch in silence",
        2: "an example batch of 1 becomes a constant",
        3: "names of inputs go by insertion order",
        4: "a dict as last argument is taken for keywords",
        5: "AOTInductor computes with any memory it is given",
        6: "AOTInductor compiles for the processor at hand",
        7: "AOTInductor's loader compiles a probe",
        8: "distributions branch on the values of their arguments",
        9: "noise drawn inside of the graph differs between runtimes",
        10: "inputs that nothing reads are dropped",
        11: "statistics updated in forward go on in some runtimes",
        12: "dropout stays in a module in training mode",
        13: "a branch on data is baked in",
        14: "a file is saved that cannot be loaded",
        15: "weights go into a second file",
        16: "old opsets become 18",
        17: "files name the author's folders and hold sample inputs",
        18: "weights of the critic come along",
        19: "an earlier result changes with the next call",
        20: "ExecuTorch fixes or bounds the batch",
        21: "float64 observations are computed with as if they were float32",
        22: "float16 breaks images",
        23: "TorchScript traces no dicts, and its bytes vary",
        24: "torch.ao is deprecated",
        25: ".pt2 files hang on torch's version and can run code",
    }
)
NOT_HERE = MappingProxyType({20: "executorch", 22: "onnx_fp16", 24: "onnx_int8"})
"""Traps of targets that there are not: a target of that name has to come with a test of its trap."""


def trap(number: int) -> pytest.MarkDecorator:
    """Marks the test of a trap."""
    return pytest.mark.trap(number)


def plain(module: nn.Module, width: int = 2) -> Example:
    return Example(module, unbounded(4), unbounded(width))


class Small(nn.Module):
    """(B, 4) -> (B, 2), with what a test makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout = nn.Linear(4, 2), nn.Dropout(0.5)
        self.seen: torch.Tensor
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layer(obs)


class Viewed(Small):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layer(obs).view(2, -1)


class Counted(Small):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layer(obs) + int(obs.shape[0])


class Distributed(Small):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        normal = torch.distributions.Normal(self.layer(obs), torch.ones(2))
        choice = torch.distributions.Categorical(logits=normal.mean)
        return normal.mean * choice.probs


class Drawn(Small):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layer(obs) + 1e-12 * torch.randn(2)


class Learning(Small):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.seen += obs.mean(dim=0)
        return self.layer(obs)


class Dropping(Small):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.layer(obs))


class AlwaysTraining(Dropping):
    def train(self, mode: bool = True) -> Any:  # noqa: FBT002 - as torch has it
        return super().train(mode or True)


class Branching(Small):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layer(obs) if obs.sum() > 0 else -self.layer(obs)


class WithCritic(Small):
    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 5_000), nn.Linear(5_000, 1))


class Through(nn.Module):
    """obs -> obs and a weight, seen in other ways."""

    def __init__(self) -> None:
        super().__init__()
        self.log_std = nn.Parameter(torch.arange(3.0))

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return obs[:, :3], self.log_std.expand(obs.shape[0], 3)


def written(example: Example | Step, target_id: str, folder: Path, **options: Any) -> Path:
    target = resolve(target_id)
    (folder / target_id).mkdir(exist_ok=True)
    file = folder / target_id / target.FILE_NAME
    with captured():
        target.export(example.traced(), file, target.Options(**options), {})
    return file


def loaded(file: Path, target_id: str) -> Any:
    with captured():
        return resolve(target_id).load(str(file))


def refused(module: nn.Module, text: str) -> None:
    """Before any target sees it."""
    with captured(), pytest.raises(UnsupportedModuleError, match=text) as caught:
        plain(module).traced()
    assert caught.value.fix


def contents(file: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            found |= {name: packed.read(name) for name in packed.namelist()}
    return found


@trap(1)
@pytest.mark.parametrize("module", [Viewed(), Counted()])
def test_a_fixed_batch_never_becomes_a_file(module: nn.Module) -> None:
    refused(module.eval(), "batch")


@trap(2)
@pytest.mark.parametrize("target_id", QUICK)
def test_a_file_takes_a_batch_of_one_and_of_more(target_id: str, tmp_path: Path) -> None:
    example = normalised()
    step = loaded(written(example, target_id, tmp_path), target_id)
    feeds = example.reference().observations.arrays
    for batch in (1, 2, 5):
        found = step({name: array[-batch:] for name, array in feeds.items()})
        np.testing.assert_allclose(found["action"], example.reference().actions["action"][-batch:], atol=1e-5)


@trap(3)
@trap(4)
def test_names_belong_to_their_tensors_in_any_order(tmp_path: Path) -> None:
    for order in (("vector", "mode", "image"), ("image", "vector", "mode")):
        base = many_inputs()
        assert isinstance(base.observation_space, Dict)
        space = Dict({name: base.observation_space.spaces[name] for name in order})
        example = Example(base.module, space, base.action_space)
        session = onnxruntime.InferenceSession(str(written(example, "onnx", tmp_path)))
        shapes = {put.name: put.shape[1:] for put in session.get_inputs()}
        assert shapes == {"obs.image": [8, 8, 3], "obs.mode": [], "obs.vector": [5]}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(plain(Small().eval()), "aot_inductor", tmp_path_factory.mktemp("compiled"))


@trap(5)
@pytest.mark.slow
def test_compiled_code_gets_only_what_it_can_read(compiled: Path) -> None:
    step = loaded(compiled, "aot_inductor")
    right = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    wrong = (right.astype(np.float64), right[:, :3], right[0], np.float32(1) * right[0, 0], right[:, :, None])
    for array in wrong:
        with pytest.raises(ValueError, match="obs: expected float32"):
            step({"obs": np.asarray(array)})
    whole = np.asfortranarray(right)
    for array in (whole, np.repeat(right, 2, axis=1)[:, ::2], right[::-1][::-1]):
        np.testing.assert_array_equal(step({"obs": array})["action"], step({"obs": right})["action"])


@trap(6)
@pytest.mark.slow
def test_compiled_code_is_pinned_and_refuses_other_processors(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = torch._C._aoti.AOTIModelPackageLoader(str(compiled), "model", False, 1, -1)  # noqa: FBT003
    assert loader.get_metadata()["AOTI_CPU_ISA"] == "AVX2"
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(RuntimeError, match="x86-64-v3"):
        loaded(compiled, "aot_inductor")


@trap(7)
@pytest.mark.slow
def test_loading_compiled_code_runs_no_compiler(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("subprocess.Popen", None)
    assert loaded(compiled, "aot_inductor")({"obs": np.zeros((1, 4), np.float32)})


@trap(8)
@pytest.mark.parametrize("target_id", QUICK)
def test_distributions_whose_mode_is_taken_export(target_id: str, tmp_path: Path) -> None:
    example = plain(Distributed().eval())
    feeds = {"obs": np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)}
    found = loaded(written(example, target_id, tmp_path), target_id)(feeds)
    np.testing.assert_allclose(found["action"], example.compute(feeds)["action"], atol=1e-6)
    assert torch.distributions.Distribution._validate_args


@trap(9)
@pytest.mark.parametrize("target_id", QUICK)
def test_noise_is_an_input_and_decides_alike_everywhere(target_id: str, tmp_path: Path) -> None:
    refused(Drawn().eval(), "draws random numbers|differently twice")
    for name in ("draws", "picks"):
        example = STEPS[name]()
        feeds = example.draw(512)
        found = loaded(written(example, target_id, tmp_path), target_id)(feeds)
        for key, array in example.compute(feeds).items():
            np.testing.assert_allclose(found[key], array, atol=1e-5)
    if target_id == "onnx":
        model = onnx.load(tmp_path / "onnx" / "policy.onnx")
        assert not [node.op_type for node in model.graph.node if "Random" in node.op_type]


@trap(10)
@pytest.mark.parametrize("target_id", QUICK)
def test_an_input_that_nothing_reads_stays(target_id: str, tmp_path: Path) -> None:
    example = EXAMPLES["ignores"]()
    step = loaded(written(example, target_id, tmp_path), target_id)
    feeds = {spec.name: np.ones((2, *spec.shape), np.float32) for spec in example.signature.inputs}
    assert step(feeds)["action"].shape == (2, 2)
    with pytest.raises(Exception, match=r"."):
        step({"obs.left": feeds["obs.left"]})


@trap(11)
def test_a_policy_that_learns_while_it_acts_is_refused() -> None:
    refused(Learning().eval(), "changes its own tensors")


@trap(12)
def test_a_module_in_training_mode_is_exported_in_eval_mode(tmp_path: Path) -> None:
    example = plain(Dropping().train())
    model = onnx.load(written(example, "onnx", tmp_path))
    assert "Dropout" not in {node.op_type for node in model.graph.node}
    refused(AlwaysTraining(), "training mode")


@trap(13)
def test_a_branch_on_data_is_refused_by_its_place() -> None:
    refused(Branching().eval(), "decisions from the values")


@trap(14)
@pytest.mark.parametrize("target_id", ["torchscript", "onnx"])
def test_files_are_opened_in_a_fresh_process(target_id: str, tmp_path: Path) -> None:
    example, target = NETWORKS["images"](), resolve(target_id)
    file = written(example, target_id, tmp_path)
    found = verify(target, file, example.signature, example.reference(), Tolerance(atol=1e-4, rtol=1e-4))
    assert (found.status, found.message) == ("ok", "")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    found = verify(target, file, example.signature, example.reference(), Tolerance(atol=1e-4, rtol=1e-4))
    assert (found.status, found.message.partition(":")[0]) == ("failed", "it cannot be loaded")


@trap(15)
def test_large_weights_stay_inside_of_the_one_file(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(4, 70_000), nn.Linear(70_000, 2)).eval()
    file = written(plain(module), "onnx", tmp_path)
    assert [path.name for path in file.parent.iterdir()] == ["policy.onnx"]
    assert file.stat().st_size > 1 << 20


@trap(16)
def test_an_opset_is_what_was_asked_for_or_refused(tmp_path: Path) -> None:
    for opset in (15, 17, 18, 22):
        model = onnx.load(written(plain(Small().eval()), "onnx", tmp_path, opset=opset))
        assert [entry.version for entry in model.opset_import] == [opset]
    with pytest.raises(ConfigError, match="opset"):
        resolve("onnx").Options(opset=14)


@trap(17)
@pytest.mark.parametrize("target_id", QUICK)
def test_nothing_of_the_author_and_no_sample_is_inside(target_id: str, tmp_path: Path) -> None:
    marker = np.float32(0.12345678)
    example = plain(Small().eval())
    graph = example.traced()
    graph.sample["obs"][...] = marker
    file = tmp_path / resolve(target_id).FILE_NAME
    with captured():
        resolve(target_id).export(graph, file, resolve(target_id).Options(), {})
    inside = {name: data for name, data in contents(file).items() if name != "selftest.c"}
    private = [str(Path(__file__).parent), str(tmp_path), sys.prefix, "test_traps.py"]
    for name, data in inside.items():
        assert [text for text in private if text.encode() in data] == [], name
        assert marker.tobytes() not in data, name


@trap(18)
@pytest.mark.parametrize("target_id", QUICK)
def test_weights_that_nothing_reads_are_left_out(target_id: str, tmp_path: Path) -> None:
    file = written(plain(WithCritic().eval()), target_id, tmp_path)
    assert sum(path.stat().st_size for path in file.parent.iterdir()) < 30_000
    assert [name for name, data in contents(file).items() if b"critic" in data] == []


@trap(19)
@pytest.mark.parametrize("target_id", QUICK)
def test_results_belong_to_the_caller(target_id: str, tmp_path: Path) -> None:
    signature = STEPS["draws"]().signature
    inputs = (signature.inputs[0],)
    example = Step(Through().eval(), type(signature)(inputs=inputs, outputs=signature.outputs[:2]))
    step = loaded(written(example, target_id, tmp_path), target_id)
    obs = np.ones((2, 4), np.float32)
    first = step({"obs": obs})
    kept = {name: array.copy() for name, array in first.items()}
    step({"obs": 5 * obs})
    for name, array in first.items():
        np.testing.assert_array_equal(array, kept[name])
        if array.flags.writeable:
            array[...] = 9
    assert (obs == 1).all()
    for name, array in step({"obs": obs}).items():
        np.testing.assert_array_equal(array, kept[name])


@trap(20)
@trap(22)
@trap(24)
def test_targets_that_would_have_further_traps_are_not_offered() -> None:
    assert not set(target_ids()) & set(NOT_HERE.values())
    imported = [
        path
        for path in (Path(__file__).parents[2] / "rlpipe").rglob("*.py")
        if "torch.ao" in path.read_text(encoding="utf-8")
    ]
    assert imported == []


@trap(21)
@pytest.mark.parametrize("target_id", QUICK)
def test_float64_observations_are_refused(target_id: str, tmp_path: Path) -> None:
    step = loaded(written(plain(Small().eval()), target_id, tmp_path), target_id)
    with captured(), pytest.raises(Exception, match=r"(?i)double|float"):
        step({"obs": np.zeros((2, 4), np.float64)})


@trap(23)
def test_a_trace_is_a_flat_tuple_of_tensors(tmp_path: Path) -> None:
    extra = {"rlpipe.json": ""}
    example = STEPS["branches"]()
    with captured():
        file = written(example, "torchscript", tmp_path)
        module = torch.jit.load(file, _extra_files=extra)  # type: ignore[no-untyped-call]
    names = json.loads(extra["rlpipe.json"])
    outputs = module(*(torch.tensor(array) for array in example.draw(2).values()))
    assert isinstance(outputs, tuple)
    assert len(outputs) == len(names["outputs"]) == 4


@trap(25)
def test_files_that_can_run_code_and_hang_on_a_version_say_so() -> None:
    assert {target_id for target_id in target_ids() if resolve(target_id).LOADING_RUNS_CODE} == {
        "aot_inductor",
        "c99",
        "numpy",
        "torch_export",
        "torchscript",
    }
    assert versions()["torch"] == torch.__version__.partition("+")[0] or versions()["torch"] == torch.__version__


def test_every_trap_is_tested() -> None:
    tests: Mapping[str, Any] = {name: value for name, value in globals().items() if name.startswith("test_")}
    marks = [mark for test in tests.values() for mark in getattr(test, "pytestmark", ())]
    assert sorted(mark.args[0] for mark in marks if mark.name == "trap") == sorted(TRAPS)
