from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rlpipe.config import conf, schema
from rlpipe.config.overrides import Groups, for_hydra

Composer = Callable[..., dict[str, Any]]
GROUPS = Groups(directories=(conf.shipped_directory(),))


@pytest.fixture(name="composed")
def _composed() -> Iterator[Composer]:
    """Overrides -> the resolved config as plain values, composed from the shipped files."""
    schema.register()

    def composed(*overrides: str) -> dict[str, Any]:
        config = compose(conf.CONFIG_NAME, overrides=list(for_hydra(overrides, GROUPS)))
        return cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True))

    with initialize_config_dir(config_dir=str(conf.shipped_directory()), version_base="1.3"):
        yield composed
