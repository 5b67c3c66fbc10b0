"""Tasks on what lies in a store."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlpipe
from rlpipe.errors import ArtifactError, CheckpointExistsError, CheckpointNotFoundError, ConfigError, NormalizerError
from rlpipe.pipeline.settings import (
    BaseSettings,
    CheckpointSettings,
    SelectSettings,
    SourceSettings,
    VerifySettings,
)
from tests.conformance.stores import Store, counted
from tests.pipeline.checkpoints import Runner

GOLDEN = Path(__file__).parents[1] / "golden" / "sb3"


@pytest.fixture
def store(checkpoint: Path) -> Iterator[Store]:
    """With a checkpoint of p0, p1 and p2 at `run/a`."""
    with counted(secrets.token_hex(4)) as made:
        made.files.put(str(checkpoint), made.path("run", "a"), recursive=True)
        yield made


def source(store: Store, name: str = "run/a") -> SourceSettings:
    return SourceSettings(path=f"{store.root}/{name}")


def test_every_task_reads_it(store: Store, run_task: Runner) -> None:
    there = source(store)
    assert run_task("verify", source=there).ok
    assert run_task("info", source=there).to_json()["policy_ids"] == ["p0", "p1", "p2"]
    assert run_task("restore", source=there, select=SelectSettings(policy_ids=("p1",))).ok
    assert run_task("diff", source=there, base=BaseSettings(path=there.path)).ok
    assert run_task("save", source=there, checkpoint=CheckpointSettings(path="local")).ok
    assert run_task("diff", source=SourceSettings(path="local"), base=BaseSettings(path=there.path)).ok


def test_every_task_writes_there(store: Store, run_task: Runner) -> None:
    target = CheckpointSettings(path=f"{store.root}/run/b", step=7)
    chosen = SelectSettings(policy_ids=("p1",))
    base = BaseSettings(path=f"{store.root}/run/a")
    report = run_task("subset_restore", source=source(store), base=base, select=chosen, checkpoint=target)
    assert report.to_json()["checkpoint"]["path"] == f"{store.root}/run/b"
    report = run_task("save", checkpoint=CheckpointSettings(), checkpoints_dir=f"{store.root}/made")
    assert report.ok
    (name,) = {name.partition("/")[0] for name in store.names("made")}
    assert name.endswith("-save")
    found = run_task("info", checkpoints_dir=f"{store.root}/made").to_json()["source"]["name"]
    assert found == f"{store.root}/made/{name}"
    assert run_task("verify", source=SourceSettings(path=f"{store.root}/run", which=7)).ok


def test_info_and_diff_open_manifests_only(store: Store, run_task: Runner) -> None:
    there = source(store)
    with store.asked() as requests:
        run_task("info", source=there)
        run_task("diff", source=there, base=BaseSettings(path=there.path))
    assert {each.path.rpartition("/")[2] for each in requests if each.kind == "get"} == {"manifest.json"}
    assert not [each for each in requests if each.path.endswith(".h5")]


def test_one_policy_opens_one_array_file(store: Store, run_task: Runner) -> None:
    with store.asked() as requests:
        run_task("restore", source=source(store), select=SelectSettings(policy_ids=("p1",)))
    assert {each.path for each in requests if each.path.endswith(".h5")} == {"run/a/policies/p1/state.h5"}


def test_the_whole_python_interface(store: Store) -> None:
    url = f"{store.root}/run/a"
    assert rlpipe.verify(url).ok
    assert rlpipe.restore(url, policy_ids=["p0"]).ok
    assert sorted(rlpipe.Algorithm.from_checkpoint(url).policies) == ["p0", "p1", "p2"]
    policy = rlpipe.Policy.from_checkpoint(f"{url}/policies/p1")
    assert isinstance(policy, rlpipe.Policy)
    path = policy.save_to_path(f"{store.root}/one")
    policy.restore_from_path(path)
    module = rlpipe.RLModule.from_checkpoint(path, inference_only=True)
    module.restore_from_path(path)
    assert rlpipe.save(url, f"{store.root}/copy", backend="pickle").ok
    with pytest.raises(CheckpointExistsError):
        rlpipe.save(url, f"{store.root}/copy")


def test_damage_is_named_from_the_source(store: Store, run_task: Runner) -> None:
    state = store.path("run", "a", "policies", "p0", "state.h5")
    store.files.pipe_file(state, store.files.cat_file(state)[:-1])
    report = run_task("verify", source=source(store), select=SelectSettings(policy_ids=("p0",)))
    (check,) = report.to_json()["checks"]
    assert check["findings"][0]["component"] == "policies/p0"


def test_a_replacement_is_refused_with_the_reason(store: Store, run_task: Runner) -> None:
    with pytest.raises(ConfigError, match="in one step"):
        run_task("save", checkpoint=CheckpointSettings(path=f"{store.root}/run/a", if_exists="replace"))


def test_a_model_file_is_fetched(store: Store, run_task: Runner) -> None:
    for name in ("ppo_normalised.zip", "vecnormalize.pkl"):
        store.files.pipe_file(store.path(name), next(GOLDEN.rglob(name)).read_bytes())
    there = SourceSettings(path=f"{store.root}/ppo_normalised.zip", normalizer=f"{store.root}/vecnormalize.pkl")
    report = run_task("save", source=there, checkpoint=CheckpointSettings(path="out"))
    assert report.to_json()["source"] == {"kind": "stable_baselines3", "name": there.path, "sample": False}
    here = run_task("info", source=SourceSettings(path=str(GOLDEN / "ppo_normalised.zip"))).to_json()
    assert report.to_json()["checkpoint"]["policies"]["p0"]["fingerprint"] == here["components"][0]["fingerprint"]
    assert store.root.partition("://")[2] not in Path("out/manifest.json").read_text()
    assert run_task("verify", source=there, verify=VerifySettings(sha256="show")).warnings == ()
    with pytest.raises(NormalizerError):
        run_task("info", source=source(store, "ppo_normalised.zip"))
    store.files.pipe_file(store.path("plain.zip"), (GOLDEN / "ppo_box.zip").read_bytes())
    for task in ("info", "verify", "restore"):
        assert "was fetched alone" in run_task(task, source=source(store, "plain.zip")).warnings[0]


def test_what_is_none_of_it_is_told(store: Store, artifacts: Path, run_task: Runner) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"did you mean .*run"):
        run_task("info", source=source(store, "rnu"))
    with pytest.raises(
        CheckpointNotFoundError, match=r"source\.which=latest, or name one of the checkpoints in it: .*run/a"
    ):
        run_task("info", source=source(store, "run"))
    store.files.pipe_file(store.path("other", "notes.txt"), b"")
    with pytest.raises(CheckpointNotFoundError, match=r"notes\.txt"):
        run_task("info", source=source(store, "other"))
    store.files.put(str(artifacts), store.path("made"), recursive=True)
    for name in ("made", "made/p0"):
        with pytest.raises(ArtifactError, match="copy it here"):
            run_task("info", source=source(store, name))


def test_nothing_recorded_names_the_store(store: Store, run_task: Runner) -> None:
    run_task("save", source=source(store), checkpoint=CheckpointSettings(path=f"{store.root}/run/b"))
    root = json.loads(store.files.cat_file(store.path("run", "b", "manifest.json")))
    assert store.root.partition("://")[2] not in json.dumps(root)
