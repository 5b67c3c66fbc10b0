"""`REPORT.md`: an artifact folder for people."""

from __future__ import annotations

from typing import Any

from rlpipe.exporters.companions.page_proof import (
    agreement,
    episodes,
    file_checks,
    matrix,
    single_steps,
    speed,
    steps_in_a_row,
    targets,
    wrong_inputs,
)
from rlpipe.exporters.companions.page_table import Record, table

PAGE_NAME = "REPORT.md"
_MOST_ROWS = 64
_AGAIN = (
    "`python verify.py` runs the golden vectors through every target whose runtime is installed; it needs numpy and "
    "that runtime, nothing else. `golden.json` holds the same vectors for other languages."
)
_STEPPING = {
    "state": "`state.<i>`: what the policy remembers; zeros before the first step, then the `state.<i>.next` of the "
    "step before.",
    "episode_start": "`episode_start`: true at the first step of every episode, which puts the memory of that row back "
    "whatever `state.<i>` holds; false at all other steps.",
    "action_mask": "`action_mask`: true where a choice is allowed, for one part of the action after the other. Where "
    "nothing of a part is allowed, all of it is.",
    "normal": "`noise`: drawn anew for every step from a normal distribution of mean 0 and deviation 1; equal noise "
    "gives equal actions.",
    "uniform": "`noise`: drawn anew for every step, uniform between 0 and 1; equal noise gives equal actions.",
}


def page(record: Record) -> str:
    """The page for the record of a folder."""
    parts = [
        f"# {record['policy_id']}",
        _facts(record),
        "## Targets",
        targets(record),
        "## Proof",
        matrix(record),
        *file_checks(record),
        *single_steps(record),
        *steps_in_a_row(record),
        *episodes(record),
        *agreement(record),
        *speed(record),
        "## What it takes and gives",
        _signature(record),
        *_stepping(record),
        *_names(record),
        *wrong_inputs(record),
        *_observations(record),
        "## Check it again",
        _AGAIN,
    ]
    return "\n\n".join(parts) + "\n"


def _facts(record: Record) -> str:
    trained = {True: "yes", False: "**no: weights as they were made**", None: "not recorded"}[record.get("trained")]
    stages = record["stages"]
    chains = {side: " > ".join(stage["type"] for stage in chain) or "none" for side, chain in stages.items()}
    rows = [
        ("fingerprint", f"`{record['fingerprint']}`"),
        ("trained", trained),
        ("module", f"`{record['module']}`"),
        ("mode", record["mode"]),
        *((name, _plain(record[name])) for name in ("action", "outputs", "component") if record.get(name)),
        *((f"{side} stages", chain) for side, chain in chains.items()),
        ("made by", ", ".join(f"{name} {number}" for name, number in record.get("versions", {}).items())),
    ]
    return table(("what", "as exported"), rows)


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _signature(record: Record) -> str:
    rows = [
        (side[:-1], f"`{spec['name']}`", spec["dtype"], ", ".join(map(str, spec["shape"])), *map(_bound, _bounds(spec)))
        for side in ("inputs", "outputs")
        for spec in record["signature"][side]
    ]
    return table(("", "name", "dtype", "shape", "low", "high"), rows)


def _stepping(record: Record) -> list[str]:
    """What is to be known about inputs that are no observations."""
    kinds = [kind for spec in record["signature"]["inputs"] for kind in (spec.get("kind"), spec.get("distribution"))]
    found = [f"- {_STEPPING[kind]}" for kind in dict.fromkeys(kinds) if kind in _STEPPING]
    return ["\n".join(found)] if found else []


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
