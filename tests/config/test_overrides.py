from __future__ import annotations

from pathlib import Path

import pytest

from rlpipe.config import conf
from rlpipe.config.overrides import Groups, check_overrides, without_plus
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
    check_overrides([override], GROUPS)


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
        check_overrides([f"{sign}{key}=x"], GROUPS)
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
        check_overrides([override], GROUPS)
    assert found in str(caught.value)


def test_all_findings_come_in_one_error() -> None:
    with pytest.raises(ConfigError) as caught:
        check_overrides(["task=exprot", "+polcy_ids=[p1]", "policy_ids=['p1"], GROUPS)
    text = str(caught.value)
    assert text.startswith("3 things")
    assert all(word in text for word in ("exprot", "polcy_ids", "policy_ids=['p1"))


def test_the_plus_before_a_group_is_dropped() -> None:
    overrides = ["+task=save", "++module=sac", "+policy_ids=[a]"]
    assert without_plus(overrides, GROUPS) == ("task=save", "module=sac", "+policy_ids=[a]")


def test_options_of_other_folders_are_known(tmp_path: Path) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "mine.yaml").write_text("{}")
    check_overrides(["module=mine"], Groups(directories=(*GROUPS.directories, tmp_path)))
    check_overrides(["module=elsewhere"], Groups(directories=GROUPS.directories, is_closed=False))
    with pytest.raises(ConfigError, match="mine"):
        check_overrides(["module=mine"], GROUPS)
