"""The levels of proof of one artifact, each with its own status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

LevelStatus: TypeAlias = Literal["ok", "failed", "skipped", "info"]

FILE, NUMBERS, CONTRACT, LOOP, SPEED = "L0 file", "L1 numbers", "L2 contract", "L3 loop", "L4 speed"
LEVELS = (FILE, NUMBERS, CONTRACT, LOOP, SPEED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What one level of proof found.

    Attributes:
        name: One of `LEVELS`.
        status: `ok`; `failed`; `skipped` where it could not or need not be done; `info` where nothing is demanded.
        detail: In words, on one line.
        facts: The same as plain JSON.
    """

    name: str
    status: LevelStatus
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"status": self.status, "detail": self.detail, **({"facts": dict(self.facts)} if self.facts else {})}

    @classmethod
    def from_json(cls, name: str, value: Mapping[str, Any]) -> Level:
        """The inverse of `to_json`."""
        return cls(name=name, status=value["status"], detail=value["detail"], facts=value.get("facts", {}))
