from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose
from omegaconf import OmegaConf

from rlpipe.config import conf
from rlpipe.config.hydra_errors import config_error, is_of_the_config


def raised(*overrides: str) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is Hydra's affair
        OmegaConf.to_container(compose(conf.CONFIG_NAME, overrides=list(overrides)), resolve=True)
    return caught.value


@pytest.mark.parametrize(
    ("override", "found", "fix"),
    [
        ("module@algorithm.policies.p0.module=sac", "Could not override", "'+module@algorithm.policies.p0.module=sac'"),
        ("envv=x", "Could not override 'envv'. Key 'envv' is not in struct", "rlpipe --cfg job"),
        ("+restore.device=x", "An item is already at 'restore.device'", "rlpipe --cfg job"),
        ("module=mine", "Could not find 'module/mine' Available options in 'module': dqn ppo", "rlpipe --cfg job"),
        ("env=${nope}", "Interpolation key 'nope' not found", "rlpipe --cfg job"),
        ("hydra.verbose=[", "no viable alternative at input '['", "rlpipe --cfg job"),
    ],
)
def test_what_hydra_says_becomes_one_block(override: str, found: str, fix: str, composed: Any) -> None:
    error = raised(override)
    assert is_of_the_config(error)
    made = config_error(error)
    assert made.exit_code == 2
    assert found in made.found
    assert fix in made.fix
    assert made.expected
    assert "To append to your config" not in str(made)
    assert f"+{override}" not in made.found


def test_a_yaml_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("a: [1")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - PyYAML is OmegaConf's affair
        OmegaConf.load(tmp_path / "mine.yaml")
    assert is_of_the_config(caught.value)
    assert "expected ',' or ']'" in config_error(caught.value).found


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), None])
def test_other_errors_are_not_of_the_config(error: Exception | None) -> None:
    assert not is_of_the_config(error)
