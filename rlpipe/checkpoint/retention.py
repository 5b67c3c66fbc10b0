"""Which checkpoints of a folder stay when a new one is there."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.choose import Goal, Recorded, damage_of, ranked, survey
from rlpipe.checkpoint.foreign import foreign_in
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.checkpoint.litter import discard
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.errors import CheckpointError, CheckpointNotFoundError, ConfigError, StoreError, listed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What stays; the rest goes. Without `keep_last` and `keep_every` everything stays.

    Attributes:
        keep_last: So many of the latest; 1 if only `keep_every` is given.
        keep_every: Of every so many steps the first checkpoint: with 1000 the first from 0 on, the first from 1000 on.
        keep_best: So many with the best scores.
        goal: Whether the largest or the smallest score is the best.
    """

    keep_last: int | None = None
    keep_every: int | None = None
    keep_best: int = 1
    goal: Goal = "max"

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value, low in (
            ("keep_last", self.keep_last, 1),
            ("keep_every", self.keep_every, 1),
            ("keep_best", self.keep_best, 0),
        ):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < low):
                raise ConfigError(
                    f"checkpoint.{name}={value} keeps nothing that can be named",
                    expected=f"a whole number from {low}",
                    found=repr(value),
                )
        if self.goal not in ("max", "min"):
            raise ConfigError("this is no goal", expected="max or min", found=repr(self.goal))

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is ever removed."""
        return self.keep_last is None and self.keep_every is None


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """What became of older checkpoints.

    Attributes:
        kept: Those that stayed by the rules, the latest last.
        removed: Those that went.
        failed: Those that should have gone, and why they could not.
        notes: What was passed over, and why.
    """

    kept: tuple[Place, ...] = ()
    removed: tuple[Place, ...] = ()
    failed: tuple[tuple[Place, str], ...] = ()
    notes: tuple[str, ...] = ()


def apply_retention(committed: str | os.PathLike[str], retention: Retention) -> RetentionReport:
    """Remove older checkpoints beside one that has just been written.

    Only its like is touched: beside one with a recorded step those with one, beside one without those without.
    Symbolic links, what they point to in the folder, and what is no sound checkpoint stay, and so does one with
    something else in it. A checkpoint that goes is whole until it is gone; in a store it is none from the first file
    that goes. One that cannot be removed, or a store that does not answer, is reported and logged, as the save itself
    did not fail.

    Args:
        committed: The new checkpoint. It stays, whatever the rules say.
        retention: The rules.

    Raises:
        CheckpointNotFoundError: The new checkpoint is not there, or not whole: nothing was removed.
    """
    if retention.keeps_all:
        return RetentionReport()
    try:
        return _apply(place_of(committed), retention)
    except StoreError as error:
        logger.warning("older checkpoints beside %s were not removed: %s", committed, error)
        return RetentionReport(notes=(f"older checkpoints were not removed: {error.subject}",))


def _apply(newest: Place, retention: Retention) -> RetentionReport:
    seen = survey(newest.parent)
    own = next((each for each in seen.found if each.path.name == newest.name), None)
    damage = damage_of(newest)
    if own is None or damage:
        raise CheckpointNotFoundError(
            f"nothing beside {newest} was removed, as it is no whole checkpoint",
            expected="the checkpoint that has just been written",
            found=damage or "a part of a checkpoint",
        )
    series = [each for each in seen.found if (each.step is None) == (own.step is None) and not each.path.is_symlink()]
    staying = {own.path, *_linked(newest.parent), *(each.path for each in kept(series, retention))}
    damaged = {each.path: damage_of(each.path) for each in series if each.path not in staying}
    removed, failed = _remove(path for path, damage in damaged.items() if not damage)
    remaining = tuple(each.path for each in series if each.path in staying)
    left = (f"left {path}, which is damaged: {damage}" for path, damage in damaged.items() if damage)
    return RetentionReport(remaining, removed, failed, (*seen.notes, *left))


def kept(series: Sequence[Recorded], retention: Retention) -> list[Recorded]:
    """Those that stay by the rules; of the last and the best only whole ones count.

    Args:
        series: In order, the latest last.
        retention: The rules.
    """
    whole_last = (each for each in reversed(series) if not damage_of(each.path))
    whole_best = (each for each in ranked(series, goal=retention.goal) if not damage_of(each.path))
    staying = [*islice(whole_last, retention.keep_last or 1), *islice(whole_best, retention.keep_best)]
    return [*staying, *_firsts(series, retention.keep_every)]


def _firsts(series: Iterable[Recorded], every: int | None) -> Iterable[Recorded]:
    """Of every so many steps the first checkpoint."""
    if every is None:
        return ()
    stepped = [(each.step, each) for each in series if each.step is not None]
    backwards = sorted(stepped, key=lambda pair: pair[0], reverse=True)
    return {step // every: each for step, each in backwards}.values()


def _linked(folder: Place) -> set[Place]:
    """What symbolic links of the folder point to in it."""
    if isinstance(folder, Url):
        return set()
    real = folder.resolve()
    targets = (each.resolve() for each in folder.iterdir() if each.is_symlink())
    return {folder / each.name for each in targets if each.parent == real}


def _remove(paths: Iterable[Place]) -> tuple[tuple[Place, ...], tuple[tuple[Place, str], ...]]:
    removed: list[Place] = []
    failed: list[tuple[Place, str]] = []
    for path in paths:
        try:
            _require_alone(path)
            _discard(path)
            removed.append(path)
        except (OSError, CheckpointError) as error:
            failed.append((path, str(error)))
            logger.warning("the older checkpoint %s could not be removed: %s", path, error)
    return tuple(removed), tuple(failed)


def _require_alone(place: Place) -> None:
    if found := foreign_in(place):
        raise CheckpointError("it has something else in it", found=listed(found), fix="move that away")


def _discard(place: Place) -> None:
    """Remove a checkpoint; in a store its root's manifest first, so that what is half removed is none."""
    if isinstance(place, Url):
        (place / MANIFEST_NAME).remove()
        place.remove_all()
    else:
        discard(place)
