from __future__ import annotations

from pathlib import Path

import pytest

from rlpipe.config import conf
from rlpipe.config.new_policies import require_known_policies
from rlpipe.config.overrides import Groups, check_overrides
from rlpipe.errors import ConfigError

GROUPS = Groups(directories=(conf.shipped_directory(),))


def require(*overrides: str, groups: Groups = GROUPS) -> None:
    require_known_policies(check_overrides(overrides, groups, is_sweep=True), groups)


@pytest.mark.parametrize(
    "overrides",
    [
        ["algorithm.policies.p0.env=x"],
        ["algorithm=sample", "algorithm.policies.p2.env=x"],
        ["+algorithm.policies.p3.env=x"],
        ["+algorithm.policies.p3.env=x", "algorithm.policies.p3.module.inference_only=true"],
        ["+algorithm.policies={p3: {}}", "algorithm.policies.p3.env=x"],
        ["+module@algorithm.policies.p3.module=sac", "algorithm.policies.p3.env=x"],
        ["algorithm=default,sample", "algorithm.policies.p9.env=x"],
        ["env=x"],
    ],
)
def test_policies_that_are_there_or_added(overrides: list[str]) -> None:
    require(*overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        ["algorithm.policies.po.env=x"],
        ["algorithm.policies.po.module.model_config.actor.hidden=[8]", "algorithm=sample"],
        ["algorithm.policies.po.env=x", "+algorithm.policies.po.action_space=null"],
    ],
)
def test_a_typo_in_an_id_is_told_with_the_nearest_and_with_the_plus(overrides: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        require(*overrides)
    error = caught.value
    assert (error.subject, error.expected) == ("algorithm.policies.po", "one of p0, p1, p2")
    assert "did you mean algorithm.policies.p" in error.fix
    assert f"'+{overrides[0]}'" in error.fix


@pytest.mark.parametrize("plus", ["", "+", "++"])
@pytest.mark.parametrize(
    "override",
    [
        "algorithm.policies.p1=null",
        "algorithm.policies={p1: null}",
        "algorithm.policies={p0: {env: x}, p1: null}",
        "algorithm.policies.p1=null,{env: x}",
        "algorithm.policies={p1: null},{p0: {}}",
    ],
)
def test_a_policy_that_is_null_is_refused(plus: str, override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require("algorithm=sample", f"{plus}{override}")
    error = caught.value
    assert (error.subject, error.found) == ("algorithm.policies.p1", "null")
    assert "'~algorithm.policies.p1'" in error.fix
    require("algorithm=sample", "~algorithm.policies.p1")


def test_no_policies_at_all_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        require("algorithm=sample", "algorithm.policies={}")
    assert "changes nothing" in caught.value.found


def test_options_of_folders_that_hydra_alone_searches_are_not_judged() -> None:
    require("algorithm.policies.po.env=x", groups=Groups(directories=GROUPS.directories, is_closed=False))


def test_policies_of_ones_own_options_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "algorithm").mkdir()
    (tmp_path / "algorithm" / "mine.yaml").write_text("policies: {walker: }\n")
    monkeypatch.setenv("RLPIPE_CONF", str(tmp_path))
    groups = Groups(directories=(*GROUPS.directories, tmp_path))
    require("algorithm=mine", "algorithm.policies.walker.env=x", groups=groups)
    with pytest.raises(ConfigError, match=r"policies\.walker"):
        require("algorithm=mine", "algorithm.policies.walkr.env=x", groups=groups)
