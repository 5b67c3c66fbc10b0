"""What the source's node says about a foreign file that the file itself cannot tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from rlpipe.config.findings import Findings
from rlpipe.config.values import described, text, text_list

Reader = Callable[[str, Any, Findings], Any]


def read_hints(node: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Option of an importer -> what was given for it; what was left at null is not there.

    Args:
        node: The source's node.
        findings: Where faults are noted.
    """
    given = {name: value for name in HINTS if (value := node[name]) not in (None, {})}
    return {name: HINTS[name](f"source.{name}", value, findings) for name, value in given.items()}


def _number(key: str, value: Any, findings: Findings) -> float | None:
    """A finite number."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number:
        findings.add(key, expected="a finite number", found=described(value), fix=f"write {key}=1.0")
    return float(value) if is_number else None


def _numbers(key: str, value: Any, findings: Findings) -> float | tuple[float, ...] | None:
    """A finite number, or a list of them."""
    if not isinstance(value, list) or not value:
        return _number(key, value, findings)
    numbers = [_number(f"{key}[{index}]", item, findings) for index, item in enumerate(value)]
    return tuple(number for number in numbers if number is not None)


def _names(key: str, value: Any, findings: Findings) -> tuple[str, ...] | None:
    return text_list(key, value, findings, of="names")


def _agents(key: str, value: Any, findings: Findings) -> dict[str, str]:
    # Agents may be numbered.
    given = {
        str(name): str(agent) if type(agent) is int else text(f"{key}.{name}", agent, findings)
        for name, agent in value.items()
    }
    return {name: agent for name, agent in given.items() if agent is not None}


HINTS: Mapping[str, Reader] = MappingProxyType(
    {
        "filter_agent": _agents,
        "params": text,
        "activation": text,
        "clip_actions": _number,
        "observation_names": _names,
        "joint_names": _names,
        "action_scale": _numbers,
        "action_offset": _numbers,
    }
)
"""Key of the source's node -> who reads it. An importer that has no such option refuses it."""
