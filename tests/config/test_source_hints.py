from __future__ import annotations

from typing import Any

import pytest

from rlpipe.config.findings import Findings
from rlpipe.config.source_hints import HINTS, read_hints

NOTHING: dict[str, Any] = dict.fromkeys(HINTS)


def read(**given: Any) -> tuple[dict[str, Any], list[str]]:
    findings = Findings()
    return read_hints({**NOTHING, **given}, findings), [found.key for found in findings.found]


def test_what_is_left_at_null_is_not_there() -> None:
    assert read() == ({}, [])


def test_values_come_as_importers_take_them() -> None:
    given = {
        "activation": "elu",
        "params": "runs/walk",
        "clip_actions": 1,
        "joint_names": ["hip", "knee"],
        "action_scale": 0.25,
        "action_offset": [0, 0.5],
    }
    hints, faults = read(**given)
    assert not faults
    assert hints == {
        **given, "clip_actions": 1.0, "joint_names": ("hip", "knee"), "action_offset": (0.0, 0.5)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("activation", 3, "source.activation"),
        ("params", "", "source.params"),
        ("clip_actions", True, "source.clip_actions"),
        ("clip_actions", float("inf"), "source.clip_actions"),
        ("joint_names", "hip", "source.joint_names"),
        ("observation_names", ["a", 1], "source.observation_names[1]"),
        ("action_scale", [0.5, "x"], "source.action_scale[1]"),
        ("action_scale", [], "source.action_scale"),
        ("action_offset", {"hip": 1}, "source.action_offset"),
    ],
)
def test_what_does_not_fit_is_named(name: str, value: Any, key: str) -> None:
    assert read(**{name: value})[1] == [key]
