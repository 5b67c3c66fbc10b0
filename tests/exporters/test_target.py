from __future__ import annotations

import pytest

from rlpipe.errors import ConfigError
from rlpipe.exporters.target import install_hint, resolve, target_ids
from rlpipe.exporters.targets import onnx


def test_targets_are_the_files() -> None:
    assert set(target_ids()) >= {"onnx", "safetensors", "torch_export", "torchscript"}
    assert list(target_ids()) == sorted(target_ids())
    assert resolve("onnx").load is onnx.load


@pytest.mark.parametrize("target_id", ["", "onnxx", "ONNX", "..", "__init__", "target"])
def test_nothing_else_is_a_target(target_id: str) -> None:
    with pytest.raises(ConfigError, match="onnx, "):
        resolve(target_id)


def test_the_hint_names_what_to_install() -> None:
    assert install_hint("json", "numpy") is None
    assert install_hint("numpy", "no_such_thing", "no_other") == (
        "not installed: no_other, no_such_thing; pip install no_such_thing no_other"
    )
