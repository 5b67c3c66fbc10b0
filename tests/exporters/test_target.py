from __future__ import annotations

import pytest

from rlpipe.errors import ConfigError
from rlpipe.exporters.target import install_hint, require_tolerances, resolve, target_ids
from rlpipe.exporters.targets import onnx


def test_targets_are_the_files() -> None:
    assert set(target_ids()) >= {"onnx", "safetensors", "torch_export", "torchscript"}
    assert list(target_ids()) == sorted(target_ids())
    assert resolve("onnx").load is onnx.load


@pytest.mark.parametrize("target_id", ["", "onnxx", "ONNX", "..", "__init__", "target"])
def test_nothing_else_is_a_target(target_id: str) -> None:
    with pytest.raises(ConfigError, match="onnx, "):
        resolve(target_id)


@pytest.mark.parametrize("value", [-1, -1e-300, float("nan"), float("inf")])
def test_a_tolerance_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ConfigError) as caught:
        require_tolerances("onnx", atol=0.0, rtol=value)
    error = caught.value
    assert (error.subject, error.found, error.fix) == ("export.onnx.rtol", str(value), "export.onnx.rtol=1e-5")


def test_zero_is_a_tolerance() -> None:
    require_tolerances("onnx", atol=0, rtol=0.0)


def test_the_hint_names_what_to_install() -> None:
    assert install_hint("json", "numpy") is None
    assert install_hint("numpy", "no_such_thing", "no_other") == (
        "not installed: no_other, no_such_thing; pip install no_such_thing no_other"
    )
