from __future__ import annotations

from typing import Any

import pytest

from rlpipe.config.findings import Findings
from rlpipe.config.quoting import mend_path_override
from rlpipe.config.source_hints import HINTS, read_hints
from rlpipe.config.validation import read_settings

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


def test_hints_arrive_from_the_command(composed: Any) -> None:
    settings = read_settings(composed(
        "task=info", "source=rsl_rl", "source.path=model.pt", "source.activation=elu", "source.joint_names=[hip,knee]",
        "source.action_scale=0.25", "source.action_offset=[0.0,0.5]", "source.clip_actions=1", "source.params=none",
        "source.observation_names=[a,b]",
    ))  # fmt: skip
    assert settings.source.kind == "rsl_rl"
    assert settings.source.hints == {
        "activation": "elu", "joint_names": ("hip", "knee"), "action_scale": 0.25, "action_offset": (0.0, 0.5),
        "clip_actions": 1.0, "params": "none", "observation_names": ("a", "b"),
    }  # fmt: skip


def test_the_path_of_a_folder_of_settings_may_hold_anything(composed: Any) -> None:
    override = mend_path_override("source.params=runs/walk, lr=1e-3/params", sweep=False)
    settings = read_settings(composed(override))
    assert settings.source.hints == {"params": "runs/walk, lr=1e-3/params"}
