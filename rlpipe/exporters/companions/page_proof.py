"""The part of `REPORT.md` that proves: each level of each target, how far they are apart, how fast they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpipe.exporters.companions.page_table import Record, error, table
from rlpipe.exporters.levels import CONTRACT, FILE, LEVELS, LOOP, NUMBERS, SPEED

_WRONG = (
    "L2 contract: what the bare file does with wrong inputs. `checked` in `example.py` and `verify.py` goes before it "
    "and refuses each of them by name; what only looks wrong leads to what stands here."
)
_ROW = (
    "Many steps in a row, in which the file is given the memory that it gave itself and episodes begin in between; the "
    "largest difference in each quarter of the run shows whether it drifts. Behind a tie a row is left until its next "
    "episode."
)
_LOOP = "L3 loop: the policy's own episodes once more, from the same seeds, with the file acting."
_SINGLE = (
    "Single steps: the largest difference of each output from the policy's own, and how many went another way where "
    "the policy itself leaves it open: a tie of two choices, its own rounding, no number at all."
)


def targets(record: Record) -> str:
    """A row for each target."""
    rows = [
        (
            f"{name} (legacy: {entry['legacy']})" if entry.get("legacy") else name,
            entry["status"],
            f"`{entry['file']}`" if entry.get("file") else "-",
            f"{sum(file['size'] for file in entry.get('files', ())):,}" if entry.get("files") else "-",
            error(entry.get("verification", {}).get("max_error")),
            f"{entry.get('seconds', 0):.1f}",
            entry.get("message", ""),
        )
        for name, entry in sorted(record["targets"].items())
    ]
    return table(("target", "status", "file", "bytes", "largest difference", "seconds", "message"), rows)


def matrix(record: Record) -> str:
    """Status by target and level."""
    rows = [
        (name, *(entry.get("levels", {}).get(level, {}).get("status", "-") for level in LEVELS))
        for name, entry in sorted(record["targets"].items())
    ]
    return table(("target", *LEVELS), rows)


def file_checks(record: Record) -> list[str]:
    """What was looked for in the files."""
    found = dict(_facts(record, FILE))
    checks = list(dict.fromkeys(check for facts in found.values() for check in facts))
    rows = [(check, *(facts.get(check, "-") for facts in found.values())) for check in checks]
    return [f"### {FILE}", table(("looked for", *found), rows)] if rows else []


def single_steps(record: Record) -> list[str]:
    """How far each output is from the policy's."""
    found = list(_verified(record))
    if not found:
        return []
    names = [spec["name"] for spec in record["signature"]["outputs"]]
    rows = []
    for target, checked in found:
        errors = checked.get("errors") or {names[0]: checked.get("max_error")}
        counts = (checked.get(name, 0) for name in ("ties", "rounding", "undefined"))
        rows.append(
            (target, sum(checked["observations"].values()), *(error(errors.get(name)) for name in names), *counts)
        )
    columns = ("target", "steps", *(f"`{name}`" for name in names), "ties", "own rounding", "no number")
    batches = ", ".join(map(str, found[0][1]["batches"]))
    groups = ", ".join(f"{count} {group}" for group, count in found[0][1]["observations"].items())
    bounds = [f"{target}: {facts['bounds']}." for target, facts in _facts(record, NUMBERS) if "bounds" in facts]
    text = f"{_SINGLE} Observations: {groups}, in batches of {batches}."
    return [
        f"### {NUMBERS}",
        text,
        table(columns, rows),
        *(["\n".join(f"- {line}" for line in bounds)] if bounds else []),
    ]


def steps_in_a_row(record: Record) -> list[str]:
    """How far a file gets from the policy with a memory of its own."""
    rows = [
        (
            target,
            f"{run['steps']} x {run['rows']}",
            run["starts"],
            *map(error, run["drift"]),
            *(run[name] for name in ("ties", "left", "rounding")),
        )
        for target, checked in _verified(record)
        if (run := checked.get("episodes"))
    ]
    quarters = ("1st quarter", "2nd", "3rd", "4th")
    columns = ("target", "steps x rows", "episode starts", *quarters, "ties", "left", "own rounding")
    return ["### Steps in a row", _ROW, table(columns, rows)] if rows else []


def wrong_inputs(record: Record) -> list[str]:
    """What each file does with each case."""
    found = dict(_facts(record, CONTRACT))
    cases = list(dict.fromkeys(case for facts in found.values() for case in facts))
    rows = [
        (case, *(facts.get(case, {}).get("file", "-").partition(":")[0] for facts in found.values())) for case in cases
    ]
    return ["## Wrong inputs", _WRONG, table(("input", *found), rows)] if rows else []


def episodes(record: Record) -> list[str]:
    """How each file did in the environment."""
    levels = [
        (name, entry["levels"][LOOP])
        for name, entry in sorted(record["targets"].items())
        if LOOP in entry.get("levels", {})
    ]
    rows = [
        (
            name,
            facts["env"],
            f"{facts['equal_episodes']} of {facts['episodes']}",
            f"{facts['mean_return']:.2f}",
            f"{facts['policy_mean_return']:.2f}",
            error(facts["open_loop_difference"]),
            "never" if facts["first_difference"] is None else f"step {facts['first_difference'] + 1}",
        )
        for name, level in levels
        if (facts := level.get("facts"))
    ]
    columns = (
        "target",
        "environment",
        "equal episodes",
        "mean return",
        "the policy's",
        "at its inputs",
        "first differs",
    )
    skipped = [f"- {name}: {level['detail']}" for name, level in levels if not level.get("facts")]
    parts = ([table(columns, rows)] if rows else []) + (["\n".join(skipped)] if skipped else [])
    return ["## Episodes", _LOOP, *parts] if parts else []


def agreement(record: Record) -> list[str]:
    """How far any two are apart."""
    pairs = record.get("agreement")
    if not pairs:
        return []
    names = list(pairs)
    rows = [(name, *(error(pairs[name].get(other)) for other in names)) for name in names]
    text = "Largest difference between the outputs of two on the golden vectors."
    return ["## Agreement", text, table(("", *names), rows)]


def speed(record: Record) -> list[str]:
    """How fast they are."""
    columns = {
        "load s": ("load_seconds", "{:.2f}"),
        "first call ms": ("first_call_seconds", "{:.2f}"),
        "p50 us": ("p50_us", "{:.0f}"),
        "p99 us": ("p99_us", "{:.0f}"),
        "per second at 1024": ("batch_1024_per_second", "{:,.0f}"),
        "peak MB": ("peak_mb", "{:.0f}"),
    }
    rows = [(name, *(_figure(facts, *column) for column in columns.values())) for name, facts in _facts(record, SPEED)]
    text = "Measured once, in Python, on the machine that exported: for comparison with each other only."
    return ["## Latency", text, table(("target", *columns), rows)] if rows else []


def _facts(record: Record, level: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(target, facts) of one level."""
    for name, entry in sorted(record["targets"].items()):
        if facts := entry.get("levels", {}).get(level, {}).get("facts"):
            yield name, facts


def _verified(record: Record) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(target, what comparing numbers found)."""
    for name, entry in sorted(record["targets"].items()):
        if checked := entry.get("verification"):
            yield name, checked


def _figure(facts: Mapping[str, Any], name: str, form: str) -> str:
    value = facts.get(name)
    return "-" if value is None else form.format(1000 * value if name == "first_call_seconds" else value)
