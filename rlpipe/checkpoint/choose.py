"""Which checkpoint of a folder: the latest, the best, or that of a step, by what the checkpoints themselves record.

Where in a run a checkpoint was made stands in its root's provenance, beside the time: `step`, and perhaps `score` and
`run` (see `made_at`). It says something about that one save, so a converted or merged checkpoint does not inherit it.
Names of directories, their order and their times of change mean nothing.

The order: between runs by time; inside a run by step, then by time. Checkpoints with a step and without a run are one
run, that of the folder. One without a step is a run of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.component import is_half_written, open_tree
from rlpipe.checkpoint.directory import list_checkpoints
from rlpipe.checkpoint.litter import is_litter
from rlpipe.checkpoint.manifest import Origin
from rlpipe.checkpoint.place import Place, place_of, size_of
from rlpipe.checkpoint.reader import read_manifest
from rlpipe.checkpoint.steady import steadily
from rlpipe.errors import CheckpointError, CheckpointNotFoundError, ConfigError, StoreError, UnsupportedStateError
from rlpipe.snapshot.snapshot import below
from rlpipe.snapshot.spec import Json

Goal: TypeAlias = Literal["max", "min"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A checkpoint and what it says about when it was made.

    Attributes:
        path: Its directory.
        created: When it was written: UTC, as text that sorts by time.
        step: The step of training; None if it has none.
        score: How good it is; None if nobody said.
        run: Id of the run that wrote it; "" if it has none.
    """

    path: Place
    created: str
    step: int | None = None
    score: float | None = None
    run: str = ""


@dataclass(frozen=True, slots=True)
class Survey:
    """The checkpoints of a folder.

    Attributes:
        found: In order, the latest last. Their root's manifest is sound; more was not looked at.
        notes: What was passed over, and why.
    """

    found: tuple[Recorded, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A checkpoint that was chosen.

    Attributes:
        checkpoint: It; all its manifests are sound, and its files have their full size.
        notes: What was passed over, and why.
    """

    checkpoint: Recorded
    notes: tuple[str, ...]


def made_at(*, step: int, score: float | None = None, run: str = "") -> dict[str, Json]:
    """The part of a checkpoint's provenance that says where in a run it was made.

    Raises:
        UnsupportedStateError: The step is no whole number from 0, or the score is not finite.
    """
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise UnsupportedStateError("this is no step", expected="a whole number from 0", found=repr(step))
    if score is not None and not _is_rankable(score):
        raise UnsupportedStateError(
            f"the score at step {step} cannot be ranked",
            expected="a finite number",
            found=repr(score)[:80],
            fix="leave the score out as long as there is none",
        )
    scored = {} if score is None else {"score": float(score)}
    return {"step": step, **scored, **({"run": run} if run else {})}


def _is_rankable(score: object) -> bool:
    """Whether it is a finite number; those of numpy and torch, and whatever else becomes a float, are numbers too."""
    try:
        return not isinstance(score, (str, bytes)) and isfinite(float(score))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False


def survey(folder: str | os.PathLike[str]) -> Survey:
    """Look at all checkpoints directly in a folder; only their roots' manifests are read.

    Raises:
        CheckpointNotFoundError: There is no such folder.
        StoreError: A store does not say what lies there.
    """
    place = place_of(folder)
    if not place.is_dir():
        raise CheckpointNotFoundError(f"there is no folder {place}", expected="a folder of checkpoints")
    found: list[Recorded] = []
    notes: list[str] = []
    for path in _candidates(place):
        try:
            origin = read_manifest(path).origin
        except StoreError:
            raise  # It may be whole, and the latest.
        except CheckpointError as error:
            if not isinstance(error, CheckpointNotFoundError) or _is_not_whole(path):
                notes.append(f"passed over {path}: {error.subject}")
            continue
        if origin is None:
            notes.append(f"passed over {path}: it is a part of a checkpoint, without a time of its own")
        else:
            found.append(_recorded(path, origin))
    return Survey(tuple(_ordered(found)), tuple(notes))


def newest_of(folder: str | os.PathLike[str]) -> tuple[Recorded | None, tuple[str, ...]]:
    """As `latest`, for those who can do without: None where there is no whole checkpoint, and what was passed over."""
    seen = survey(folder)
    return _whole_one(reversed(seen.found), seen.notes)


def latest(folder: str | os.PathLike[str]) -> Choice:
    """The latest whole checkpoint directly in a folder.

    Raises:
        CheckpointNotFoundError: There is none; the error says what was passed over.
    """
    seen = survey(folder)
    return _first_whole(folder, reversed(seen.found), seen.notes, "")


def best(folder: str | os.PathLike[str], *, goal: Goal = "max") -> Choice:
    """The whole checkpoint with the best score directly in a folder; of equal ones the latest.

    Args:
        folder: Where the checkpoints are.
        goal: Whether the largest or the smallest score is the best.

    Raises:
        CheckpointNotFoundError: There is none with a score.
        ConfigError: The goal is none.
    """
    seen = survey(folder)
    return _first_whole(folder, ranked(seen.found, goal=goal), seen.notes, " with a score")


def at_step(folder: str | os.PathLike[str], step: int) -> Choice:
    """The whole checkpoint of a step directly in a folder; of several the latest.

    Raises:
        CheckpointNotFoundError: There is none of this step; the error lists the nearest ones.
        UnsupportedStateError: It is no step.
    """
    made_at(step=step)
    seen = survey(folder)
    steps = sorted({each.step for each in seen.found if each.step is not None}, key=lambda known: abs(known - step))
    near = f"nearest steps: {', '.join(map(str, steps[:5]))}" if steps else "no checkpoint records a step"
    wanted = [each for each in reversed(seen.found) if each.step == step]
    return _first_whole(folder, wanted, (*seen.notes, *([] if wanted else [near])), f" of step {step}")


def ranked(found: Iterable[Recorded], *, goal: Goal) -> list[Recorded]:
    """Those with a score, the best first; of equal ones the later first.

    Args:
        found: In order, the latest last.
        goal: Whether the largest or the smallest score is the best.

    Raises:
        ConfigError: The goal is none.
    """
    if goal not in ("max", "min"):
        raise ConfigError("this is no goal", expected="max or min", found=repr(goal))
    sign = -1.0 if goal == "max" else 1.0
    scored = [(sign * each.score, -index, each) for index, each in enumerate(found) if each.score is not None]
    return [each for _, _, each in sorted(scored, key=lambda item: item[:2])]


def damage_of(path: Place) -> str:
    """Why a checkpoint is not whole: a manifest or file that is missing, stale or cut short; "" if it is.

    Array files are not read; that is what verifying is for.

    Raises:
        StoreError: A store does not say.
    """
    try:
        return steadily(path, _cut_short, is_sound=lambda damage: not damage)
    except StoreError:
        raise
    except (CheckpointError, OSError) as error:
        return error.subject if isinstance(error, CheckpointError) else str(error)


def _cut_short(directory: Place) -> str:
    tree = open_tree(directory)
    # One question to a store, and not one for each file.
    sizes = directory.sizes_below() if isinstance(directory, Url) else None
    for component in tree.walk():
        file = component.manifest.table.file
        if file is None:
            continue
        place = place_of(component.directory) / file.name
        size = size_of(place) if sizes is None else sizes.get(below(component.path, file.name), 0)
        if size != file.size:
            return f"{place} has {size} of {file.size} bytes"
    return ""


def _first_whole(
    folder: str | os.PathLike[str], wanted: Iterable[Recorded], notes: Iterable[str], which: str
) -> Choice:
    found, passed = _whole_one(wanted, notes)
    if found is not None:
        return Choice(found, passed)
    raise CheckpointNotFoundError(
        f"there is no whole checkpoint{which} in {place_of(folder)}",
        expected="a directory with a checkpoint in it",
        found="; ".join(passed) or "none",
        fix="name the checkpoint itself, or write one there",
    )


def _whole_one(wanted: Iterable[Recorded], notes: Iterable[str]) -> tuple[Recorded | None, tuple[str, ...]]:
    passed = list(notes)
    for each in wanted:
        damage = damage_of(each.path)
        if not damage:
            return each, tuple(passed)
        passed.append(f"passed over {each.path}: {damage}")
    return None, tuple(passed)


def _candidates(folder: Place) -> Iterator[Place]:
    """What may be a checkpoint, whole or not."""
    if isinstance(folder, Url):
        yield from folder.folders()
        return
    inside = (each for each in folder.iterdir() if each.is_dir() and not is_litter(each))
    yield from sorted({*list_checkpoints(folder), *filter(_is_not_whole, inside)})


def _is_not_whole(directory: Place) -> bool:
    """Whether something there is to be told: a checkpoint that is half written, or what nobody here may read."""
    try:
        return is_half_written(directory)
    except OSError:
        return True


def _recorded(path: Place, origin: Origin) -> Recorded:
    said = origin.provenance
    return Recorded(path=path, created=origin.created, step=_step(said), score=_score(said), run=_run(said))


def _step(said: Mapping[str, Json]) -> int | None:
    value = said.get("step")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _score(said: Mapping[str, Json]) -> float | None:
    value = said.get("score")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _run(said: Mapping[str, Json]) -> str:
    value = said.get("run")
    return value if isinstance(value, str) else ""


def _ordered(found: Iterable[Recorded]) -> list[Recorded]:
    runs: dict[tuple[str, Place | None], list[Recorded]] = {}
    for each in found:
        alone = each.path if each.step is None and not each.run else None
        runs.setdefault((each.run, alone), []).append(each)
    by_time = sorted(runs.values(), key=lambda run: max(each.created for each in run))
    return [each for run in by_time for each in sorted(run, key=_place_in_run)]


def _place_in_run(each: Recorded) -> tuple[int, str, str]:
    return (-1 if each.step is None else each.step, each.created, each.path.name)
