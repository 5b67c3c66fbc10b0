from __future__ import annotations

from pathlib import Path

import pytest

from rlpipe.config import conf
from rlpipe.config.overrides import Groups, check_overrides, for_hydra
from rlpipe.errors import ConfigError

GROUPS = Groups(directories=(conf.shipped_directory(),))


@pytest.mark.parametrize(
    "override",
    [
        "task=save",
        "task=save,export",
        "experiment=null",
        "experiment=[smoke,slim]",
        "export=[onnx]",
        "export=[onnx],[torch_export]",
        "export=onnx",
        "module@algorithm.policies.p0.module=sac",
        "algorithm.policies.p0.module.inference_only=true",
        "+algorithm.policies={p7: {env: x}}",
        "module.model_config.actor.hidden=[3]",
        "+module.model_config.anything.at.all=1",
        "rename={p1: p7}",
        "+policy_ids=[p1]",
        "export.onnx.atol=1",
        "hydra.run.dir=x",
        "hydra/launcher=joblib",
        "checkpoint.path=${task.name}",
    ],
)
def test_good_overrides_pass(override: str) -> None:
    check_overrides([override], GROUPS, is_sweep=True)


@pytest.mark.parametrize("sign", ["", "+", "++"])
@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("polcy_ids", "policy_ids"),
        ("polcies", "policy_ids"),
        ("checkpoint.pth", "checkpoint.path"),
        ("evaluate.episode", "evaluate.episodes"),
        ("restore.devise", "restore.device"),
        ("select.role", "select.roles"),
        ("module.inference-only", "module.inference_only"),
        ("algorithm.policies.p0.module.inferenceonly", "algorithm.policies.p0.module.inference_only"),
        ("algorithm.policy", "algorithm.policies"),
        ("souce.path", "source"),
    ],
)
def test_a_typo_in_a_key_gets_the_nearest(sign: str, key: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_overrides([f"{sign}{key}=x"], GROUPS, is_sweep=False)
    assert caught.value.subject == key
    assert f"did you mean {near}" in caught.value.fix


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("task=null", "null"),
        ("task=[info,save]", "the list ['info', 'save']"),
        ("task=exprot", "'exprot'"),
        ("task=", "''"),
        ("-", "-"),
        ("task=save,exprot", "'exprot'"),
        ("module=ppi", "'ppi'"),
        ("checkpoint=null", "null"),
        ("export=null", "null"),
        ("export=[onnx,oonx]", "'oonx'"),
        ("source=sb3", "'sb3'"),
        ("~task", "a deletion"),
    ],
)
def test_a_wrong_choice_is_named(override: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_overrides([override], GROUPS, is_sweep=True)
    assert found in str(caught.value)
    assert caught.value.expected
    assert caught.value.fix


@pytest.mark.parametrize(
    ("overrides", "key", "found"),
    [
        (["source.path=a", "source.path=b"], "source.path", "a and b"),
        (["source.path=a", "task=info", "+source.path=b"], "source.path", "a and b"),
        (["task=save", "task=info"], "task", "save and info"),
        (["policy_ids=[p0]", "++policy_ids=[p1]"], "policy_ids", "[p0] and [p1]"),
        (["evaluate.seed=1", "evaluate.seed=2", "evaluate.seed=3"], "evaluate.seed", "1 and 2 and 3"),
        (["restore.device=cpu,meta", "restore.device=cuda"], "restore.device", "cpu,meta and cuda"),
        (
            ["module@algorithm.policies.p0.module=sac", "module@algorithm.policies.p0.module=ppo"],
            "module@",
            "sac and p",
        ),
    ],
)
def test_a_key_that_is_set_twice_is_refused_with_both_values(overrides: list[str], key: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_overrides(overrides, GROUPS, is_sweep=True)
    assert caught.value.subject.startswith(key)
    assert found in caught.value.found


@pytest.mark.parametrize(
    "overrides",
    [
        ["restore.device=cpu,meta"],
        ["source.path=a", "base.path=b"],
        ["source.path=a", "source.path=a"],
        ["~algorithm.policies.p0", "algorithm.policies.p0.env=CartPole-v1"],
        ["~rename", "+rename={p0: p1}"],
        ["module=sac", "module@algorithm.policies.p0.module=ppo", "module.inference_only=true"],
        ["hydra.run.dir=a", "hydra.run.dir=b"],
    ],
)
def test_what_sets_no_key_twice_stays_legal(overrides: list[str]) -> None:
    check_overrides(overrides, GROUPS, is_sweep=True)


def test_all_findings_come_in_one_error() -> None:
    with pytest.raises(ConfigError) as caught:
        check_overrides(["task=exprot", "+polcy_ids=[p1]", "policy_ids=['p1"], GROUPS, is_sweep=False)
    text = str(caught.value)
    assert text.startswith("3 things")
    assert all(word in text for word in ("exprot", "polcy_ids", "policy_ids=['p1"))


@pytest.mark.parametrize("override", ["policy_ids=p1,p2", "+policy_ids=p1,p2", "module=ppo,sac", "env=choice(a,b)"])
def test_several_values_are_for_sweeps(override: str) -> None:
    check_overrides([override], GROUPS, is_sweep=True)
    with pytest.raises(ConfigError) as caught:
        check_overrides([override], GROUPS, is_sweep=False)
    assert caught.value.expected == "one value"
    assert "-m" in caught.value.fix


@pytest.mark.parametrize("sign", ["", "+", "++"])
@pytest.mark.parametrize(
    ("override", "mended"),
    [
        ("task=save", "task=save"),
        ("module=sac", "module=sac"),
        ("policy_ids=[a]", "policy_ids=[a]"),
        ("evaluate.episodes=3", "evaluate.episodes=3"),
        ("rename.p1=p7", "++rename.p1=p7"),
        ("export.onnx.atol=1", "++export.onnx.atol=1"),
        ("module.model_config.actor.hidden=[8]", "++module.model_config.actor.hidden=[8]"),
        ("algorithm.policies.p3.env=x", "++algorithm.policies.p3.env=x"),
    ],
)
def test_a_plus_makes_no_difference(sign: str, override: str, mended: str) -> None:
    assert for_hydra([sign + override], GROUPS) == (mended,)


@pytest.mark.parametrize(
    "override",
    ["hydra.run.dir=x", "+hydra.x=1", "+module@algorithm.policies.p1.module=sac", "~env", "hydra/launcher=x"],
)
def test_what_is_hydras_alone_stays(override: str) -> None:
    assert for_hydra([override], GROUPS) == (override,)


def test_options_of_other_folders_are_known(tmp_path: Path) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "mine.yaml").write_text("{}")
    own = Groups(directories=(*GROUPS.directories, tmp_path))
    check_overrides(["module=mine"], own, is_sweep=False)
    open_groups = Groups(directories=GROUPS.directories, is_closed=False)
    check_overrides(["module=elsewhere"], open_groups, is_sweep=False)
    with pytest.raises(ConfigError, match="mine"):
        check_overrides(["module=mine"], GROUPS, is_sweep=False)
