"""Tables in Markdown, from what `artifact.json` says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Record: TypeAlias = Mapping[str, Any]


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [list(columns), ["---"] * len(columns), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", "<br>")


def error(value: float | None) -> str:
    """A difference, "-" where there is none to tell."""
    return "-" if value is None else f"{value:.1e}" if value else "0"
