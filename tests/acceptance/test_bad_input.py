"""Bad input: one clear error that names the thing, what was expected, what was found and what to do."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.program import TRACEBACK, flip_byte, run_program, run_python

Prepare = Callable[[Path, Path], str]


def missing(folder: Path, sample: Path) -> str:
    return "nowhere"


def empty(folder: Path, sample: Path) -> str:
    (folder / "empty").mkdir()
    return "empty"


def half_written(folder: Path, sample: Path) -> str:
    """All files but the root's manifest, which is written last."""
    shutil.copytree(sample, folder / "half")
    (folder / "half/manifest.json").unlink()
    return "half"


def cut_short(folder: Path, sample: Path) -> str:
    shutil.copytree(sample, folder / "cut")
    state = folder / "cut/policies/p1/state.h5"
    state.write_bytes(state.read_bytes()[:-100])
    return "cut"


def a_text_file(folder: Path, sample: Path) -> str:
    (folder / "notes.txt").write_text("a file, not a directory\n")
    return "notes.txt"


def flipped_in_a_state(folder: Path, sample: Path) -> str:
    shutil.copytree(sample, folder / "flipped")
    state = folder / "flipped/policies/p1/state.h5"
    flip_byte(state, at=state.stat().st_size // 2)
    return "flipped"


def flipped_in_a_manifest(folder: Path, sample: Path) -> str:
    shutil.copytree(sample, folder / "edited")
    manifest = folder / "edited/policies/p1/manifest.json"
    text = manifest.read_text()
    assert '"Box"' in text or '"box"' in text
    manifest.write_text(text.replace("-2.0", "-3.0", 1) if "-2.0" in text else text.replace("float32", "float16", 1))
    return "edited"


def an_untrusted_class(folder: Path, sample: Path) -> str:
    """Tampering: the manifest of p1 now names a class of the attacker's."""
    (folder / "attacker.py").write_text("open('mark', 'w').close()\n")
    shutil.copytree(sample, folder / "named")
    manifest = folder / "named/policies/p1/manifest.json"
    manifest.write_text(manifest.read_text().replace("rlpipe.modules.torch.sac.SACModule", "attacker.SACModule"))
    assert "attacker" in manifest.read_text()
    return "named"


def no_zip(folder: Path, sample: Path) -> str:
    (folder / "model.zip").write_bytes(b"PK\x03\x04 and then something else")
    return "model.zip"


def another_zip(folder: Path, sample: Path) -> str:
    with zipfile.ZipFile(folder / "photos.zip", "w") as packed:
        packed.writestr("holiday.jpg", b"\xff\xd8")
    return "photos.zip"


def half_a_zip(folder: Path, sample: Path) -> str:
    with zipfile.ZipFile(folder / "whole.zip", "w") as packed:
        packed.writestr("data", b"{}" * 500)
        packed.writestr("policy.pth", b"0" * 500)
    (folder / "model.zip").write_bytes((folder / "whole.zip").read_bytes()[:700])
    return "model.zip"


QUICK = (missing, empty, half_written, a_text_file, flipped_in_a_manifest, no_zip)
SLOW = (cut_short, flipped_in_a_state, an_untrusted_class, another_zip, half_a_zip)


@pytest.mark.parametrize("prepare", [*QUICK, *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW)])
def test_a_source_that_is_none_is_refused(prepare: Prepare, sample: Path, tmp_path: Path) -> None:
    name = prepare(tmp_path, sample)
    task = "restore" if prepare in SLOW else "info"
    run = run_program(f"task={task}", f"source.path={name}", folder=tmp_path).failed(1)
    assert name in run.text
    assert "expected" in run.text.lower()
    assert "found" in run.text.lower()
    assert "fix" in run.text.lower()
    assert len([line for line in run.err.splitlines() + run.out.splitlines() if line.strip()]) >= 3
    assert not (tmp_path / "mark").exists(), "nothing named by a file is imported"


@pytest.mark.parametrize("prepare", [flipped_in_a_state, cut_short])
def test_verify_reads_every_byte(prepare: Prepare, sample: Path, tmp_path: Path) -> None:
    run = run_program("task=verify", f"source.path={prepare(tmp_path, sample)}", folder=tmp_path).failed(1)
    assert "p1" in run.text
    assert run_program("task=verify", f"source.path={sample}", folder=tmp_path).succeeded().code == 0


COMMANDS = {
    "unknown policy": (("task=info", "policy_ids=[p9]"), (1, 2), ("p9", "p1")),
    "typo in a key": (("task=info", "sorce.path=x"), (2,), ("sorce", "source")),
    "typo in an inner key": (("task=info", "source.pth=x"), (2,), ("pth", "path")),
    "typo slipped in": (("task=info", "+typo=1"), (2,), ("typo",)),
    "typo slipped in near a key": (("task=info", "+polcy_ids=[p1]"), (2,), ("polcy_ids", "policy_ids")),
    "typo of a task": (("task=exprot",), (2,), ("exprot", "export")),
    "typo of a module": (("task=save", "module=pppo"), (2,), ("pppo", "ppo")),
    "typo of a target": (("task=export", "export=[onx]"), (2,), ("onx", "onnx")),
    "typo of a device": (("task=restore", "restore.device=gpu"), (1, 2), ("gpu", "cpu")),
    "nested list": (("task=info", "policy_ids=[[p1]]"), (2,), ("policy_ids",)),
    "twice the same": (("task=info", "policy_ids=[p1,p1]"), (2,), ("policy_ids", "p1")),
    "no policy": (("task=info", "policy_ids=[]"), (2,), ("policy_ids",)),
    "a number": (("task=info", "policy_ids=[1e3]"), (2,), ("policy_ids",)),
    "unknown role": (("task=info", "select.roles=[traning]"), (2,), ("traning", "training")),
    "typo of a target's option": (("task=export", "export.onnx.atoll=1"), (2,), ("atoll", "atol")),
    "typo of a layer's option": (("task=save", "module.model_config.actor.hiden=[8]"), (2,), ("hiden", "hidden")),
    "typo of an activation": (("task=save", "module.model_config.actor.activation=rleu"), (2,), ("rleu", "relu")),
    "a negative tolerance": (
        ("task=export", "policy_ids=[p0]", "export=[onnx]", "export.onnx.atol=-1"),
        (2,),
        ("atol", "-1"),
    ),
    "a number wanted": (("task=evaluate", "evaluate.episodes=many"), (2,), ("episodes", "many")),
}
ALWAYS = ("unknown policy", "typo in a key", "typo slipped in", "typo of a task")


@pytest.mark.parametrize(
    "case", [*ALWAYS, *(pytest.param(case, marks=pytest.mark.slow) for case in COMMANDS if case not in ALWAYS)]
)
def test_a_wrong_command_is_refused(case: str, tmp_path: Path) -> None:
    arguments, codes, words = COMMANDS[case]
    run = run_program(*arguments, folder=tmp_path).failed(*codes)
    parts = (*words, "expected", "found", "fix")
    assert [part for part in parts if part not in run.text] == [], str(run)
    assert "+" + arguments[-1] not in run.text, "what Hydra proposes for a typo is refused all the same"
    assert list(tmp_path.rglob("*.onnx")) == []


def test_a_full_traceback_is_there_for_those_who_ask(tmp_path: Path) -> None:
    run = run_program("task=info", "source.path=nowhere", folder=tmp_path, environment={"HYDRA_FULL_ERROR": "1"})
    assert run.code == 1
    assert TRACEBACK in run.err


def test_a_file_is_not_overwritten_by_a_checkpoint(tmp_path: Path, sample: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    run = run_program("task=save", f"source.path={sample}", "checkpoint.path=taken", folder=tmp_path).failed(1, 2)
    assert "taken" in run.text
    assert (tmp_path / "taken").read_text() == "mine"


AWKWARD = ("with space", "lr=0.1,gamma=0.9", "a(b)[c]{d}", "#1 größe 50%", "it's")


@pytest.mark.parametrize(
    "name", [AWKWARD[1], *(pytest.param(name, marks=pytest.mark.slow) for name in AWKWARD if name != AWKWARD[1])]
)
def test_real_paths_need_no_quotes(name: str, sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, tmp_path / name)
    run = run_program("task=info", f"source.path={name}", folder=tmp_path).succeeded()
    assert "SAMPLE" not in run.text


@pytest.mark.slow
@pytest.mark.parametrize("name", [".", "policies/..", "./policies/p0"])
def test_relative_paths_from_inside_a_checkpoint(name: str, sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, tmp_path / "kept")
    assert "p0" in run_program("info", name, folder=tmp_path / "kept").succeeded().out


@pytest.mark.slow
def test_statistics_for_a_source_that_takes_none_are_not_ignored_in_silence(sample: Path, tmp_path: Path) -> None:
    run = run_program("task=info", f"source.path={sample}", "source.normalizer=statistics.pkl", folder=tmp_path)
    assert "normalizer" in run.text


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_no_crash(tmp_path: Path) -> None:
    """The kernel answers with an input/output error, as a dying disk does."""
    if not Path("/proc/self/mem").exists():
        pytest.skip("needs a file that opens and cannot be read")
    assert "mem" in run_program("task=info", "source.path=/proc/self/mem", folder=tmp_path).failed(1).text


@pytest.mark.slow
def test_home_and_short_form(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, tmp_path / "kept")
    home = {"HOME": str(tmp_path)}
    tilde = run_program("task=info", "source.path=~/kept", folder=tmp_path, environment=home).succeeded()
    short = run_program("info", "kept", folder=tmp_path).succeeded()
    assert "p1" in tilde.out
    assert "p1" in short.out
    assert "SAMPLE" not in tilde.text + short.text


MINE = """
import torch
from rlpipe import RLModule


class Mine(RLModule):
    def setup(self):
        self.net = torch.nn.Linear(4, 2)

    def forward_inference(self, batch):
        return {"logits": self.net(batch["obs"])}
"""
SAVE_MINE = """
import rlpipe
from mine import Mine
from rlpipe import RLModuleSpec
from rlpipe.snapshot import spaces

box = spaces.Box(low=[-1.0] * 4, high=[1.0] * 4, dtype="float32")
spec = RLModuleSpec(module_class=Mine, observation_space=box, action_space=spaces.Discrete(2), model_config={})
spec.build().save_to_path("made")
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of the user's own class, and the class, which leaves a mark when it is imported."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(MINE)
    run_python(SAVE_MINE, folder=folder)
    (folder / "mine.py").write_text(MINE + "open('mark', 'w').close()\n")
    return folder


@pytest.mark.slow
def test_a_class_that_nobody_trusts_is_not_even_imported(own: Path) -> None:
    run = run_program("task=restore", "source.path=made", folder=own).failed(1)
    assert "mine.Mine" in run.text
    assert "trust" in run.text
    assert not (own / "mark").exists()
    run_program("task=info", "source.path=made", folder=own).succeeded()
    assert not (own / "mark").exists()


@pytest.mark.slow
def test_a_trusted_class_is_restored(own: Path) -> None:
    run = run_program("task=restore", "source.path=made", "trust=[mine.*]", folder=own).succeeded()
    assert "Mine" in run.out
