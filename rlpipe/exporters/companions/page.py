"""`REPORT.md`: an artifact folder for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlpipe.exporters.levels import CONTRACT, LEVELS, SPEED

PAGE_NAME = "REPORT.md"
Record = Mapping[str, Any]
_MOST_ROWS = 64
_AGAIN = (
    "`python verify.py` runs the golden vectors through every target whose runtime is installed; it needs numpy and "
    "that runtime, nothing else. `golden.json` holds the same vectors for other languages."
)
_WRONG = (
    "What the bare file does with wrong inputs. `checked` in `example.py` and `verify.py` goes before it and refuses "
    "each of them by name."
)


def page(record: Record) -> str:
    """The page for the record of a folder."""
    parts = [
        f"# {record['policy_id']}",
        _facts(record),
        "## Targets",
        _targets(record),
        "## Proof",
        _proof(record),
        *_agreement(record),
        *_speed(record),
        "## What it takes and gives",
        _signature(record),
        *_names(record),
        *_contract(record),
        *_observations(record),
        "## Check it again",
        _AGAIN,
    ]
    return "\n\n".join(parts) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [list(columns), ["---"] * len(columns), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", "<br>")


def _facts(record: Record) -> str:
    trained = {True: "yes", False: "**no: weights as they were made**", None: "not recorded"}[record.get("trained")]
    stages = record["stages"]
    chains = {side: " > ".join(stage["type"] for stage in stages[side]) or "none" for side in ("observation", "action")}
    rows = [
        ("fingerprint", f"`{record['fingerprint']}`"),
        ("trained", trained),
        ("module", f"`{record['module']}`"),
        ("mode", record["mode"]),
        ("observation stages", chains["observation"]),
        ("action stages", chains["action"]),
        ("made by", ", ".join(f"{name} {number}" for name, number in record.get("versions", {}).items())),
    ]
    return table(("", ""), rows)


def _targets(record: Record) -> str:
    rows = [
        (
            f"{name} (legacy: {entry['legacy']})" if entry.get("legacy") else name,
            entry["status"],
            f"`{entry['file']}`" if entry.get("file") else "-",
            f"{sum(file['size'] for file in entry.get('files', ())):,}" if entry.get("files") else "-",
            _error(entry),
            f"{entry.get('seconds', 0):.1f}",
            entry.get("message", ""),
        )
        for name, entry in sorted(record["targets"].items())
    ]
    return table(("target", "status", "file", "bytes", "largest difference", "seconds", "message"), rows)


def _error(entry: Record) -> str:
    checked = entry.get("verification")
    largest = (checked or {}).get("max_error")
    return "-" if largest is None else f"{largest:.1e}"


def _proof(record: Record) -> str:
    rows = []
    for name, entry in sorted(record["targets"].items()):
        levels = entry.get("levels", {})
        rows += [(name, level, levels[level]["status"], levels[level]["detail"]) for level in LEVELS if level in levels]
    return table(("target", "level", "status", "what was found"), rows)


def _agreement(record: Record) -> list[str]:
    pairs = record.get("agreement")
    if not pairs:
        return []
    names = list(pairs)
    rows = [(name, *(_pair(pairs[name].get(other)) for other in names)) for name in names]
    text = "Largest difference between the actions of two on the golden vectors."
    return ["## Agreement", text, table(("", *names), rows)]


def _pair(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}" if value else "0"


def _speed(record: Record) -> list[str]:
    found = {
        name: entry["levels"][SPEED]["facts"]
        for name, entry in sorted(record["targets"].items())
        if SPEED in entry.get("levels", {})
    }
    if not found:
        return []
    columns = {
        "load s": ("load_seconds", "{:.2f}"),
        "first call ms": ("first_call_seconds", "{:.2f}"),
        "p50 us": ("p50_us", "{:.0f}"),
        "p99 us": ("p99_us", "{:.0f}"),
        "per second at 1024": ("batch_1024_per_second", "{:,.0f}"),
        "peak MB": ("peak_mb", "{:.0f}"),
    }
    rows = [(name, *(_figure(facts, *column) for column in columns.values())) for name, facts in found.items()]
    text = "Measured once, in Python, on the machine that exported: for comparison with each other only."
    return ["## Latency", text, table(("target", *columns), rows)]


def _figure(facts: Record, name: str, form: str) -> str:
    value = facts.get(name)
    return "-" if value is None else form.format(1000 * value if name == "first_call_seconds" else value)


def _signature(record: Record) -> str:
    rows = [
        (side[:-1], f"`{spec['name']}`", spec["dtype"], ", ".join(map(str, spec["shape"])), *map(_bound, _bounds(spec)))
        for side in ("inputs", "outputs")
        for spec in record["signature"][side]
    ]
    return table(("", "name", "dtype", "shape", "low", "high"), rows)


def _bounds(spec: Record) -> tuple[Any, Any]:
    return spec.get("low"), spec.get("high")


def _bound(value: Any) -> str:
    if isinstance(value, list):
        known = [item for item in value if item is not None]
        return f"{min(known):g} to {max(known):g}, by element" if known else "-"
    return "-" if value is None else f"{value:g}"


def _names(record: Record) -> list[str]:
    names = record.get("names", {})
    rows = [(f"`{tensor}`", index, name) for tensor, given in names.items() for index, name in enumerate(given)]
    return [table(("tensor", "element", "name"), rows)] if rows else []


def _contract(record: Record) -> list[str]:
    found = {
        name: entry["levels"][CONTRACT].get("facts", {})
        for name, entry in sorted(record["targets"].items())
        if CONTRACT in entry.get("levels", {})
    }
    cases = list(dict.fromkeys(case for facts in found.values() for case in facts))
    if not cases:
        return []
    rows = [
        (case, *(facts.get(case, {}).get("file", "-").partition(":")[0] for facts in found.values())) for case in cases
    ]
    return ["## Wrong inputs", _WRONG, table(("input", *found), rows)]


def _observations(record: Record) -> list[str]:
    parts = []
    for tensor, facts in record.get("observation_statistics", {}).items():
        if isinstance(facts["mean"], list) and len(facts["mean"]) <= _MOST_ROWS:
            names = record.get("names", {}).get(tensor, ())
            rows = [
                (
                    names[index] if names else index,
                    *(f"{facts[key][index]:g}" for key in ("mean", "std", "low", "high")),
                )
                for index in range(len(facts["mean"]))
            ]
            parts.append(f"`{tensor}`, {facts['count']} observations")
            parts.append(table(("element", "mean", "std", "lowest", "highest"), rows))
        else:
            parts.append(f"`{tensor}`, {facts['count']} observations: mean {facts['mean']:g}, std {facts['std']:g}")
    return ["## Observations met in the environment", *parts] if parts else []
