"""Settings of a live optimizer, and of the schedule that moves its learning rate: looked at, and changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

import torch

from rlpipe.algorithms.optimizer_state import Named
from rlpipe.algorithms.parameter_groups import keys_of
from rlpipe.errors import SpecError, closest, listed
from rlpipe.snapshot.selection import matches, require_matches

Settings: TypeAlias = Mapping[str, Any]
_PARAMS = "params"
_LR = "lr"
_BASE = "initial_lr"
_BOUNDS = ("max_lr", "min_lr")
"""What a schedule with bounds of its own keeps in a group."""
_RATES = ("base_lrs", "max_lrs", "_last_lr")
"""What a schedule keeps of rates for each group."""


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that is to be another one.

    Attributes:
        name: Its name.
        value: What it shall be.
        places: Of which groups.
        pattern: The glob that chose them; empty for all.
    """

    name: str
    value: Any
    places: tuple[int, ...]
    pattern: str = ""

    @property
    def where(self) -> str:
        """Pattern and name, for a report."""
        return f"{self.pattern}: {self.name}: " if self.pattern else f"{self.name}: "


class Hyperparameters:
    """What an optimizer is set to.

    Args:
        optimizer: The optimizer.
        scheduler: What moves its learning rate, or None.
        named: Dotted name -> parameter.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, scheduler: Any, named: Named) -> None:
        self._groups, self._scheduler = optimizer.param_groups, scheduler
        self._kind = type(optimizer).__qualname__
        names = {id(named[name]): key for key, name in keys_of(named).items()}
        self._keys = [[names[id(parameter)] for parameter in group[_PARAMS]] for group in self._groups]

    def in_force(self) -> dict[str, Any]:
        """Name -> value, or a list with one for each group where they differ."""
        names = dict.fromkeys(name for group in self._groups for name in group if name != _PARAMS)
        values = {name: [group.get(name) for group in self._groups] for name in names}
        return {name: _alike(found) for name, found in values.items()}

    def apart_from_schedule(self) -> dict[str, Any]:
        """As `in_force`, but the rate that the schedule starts from for the one in force, and nothing else it moves."""
        if self._scheduler is None:
            return self.in_force()
        values = self.in_force()
        return {_LR: values.get(_BASE, values[_LR])}

    def planned(self, values: Settings) -> list[Change]:
        """What is to be set, without setting it.

        Args:
            values: Name -> value for every group, or glob over parameter keys -> settings of the groups of those.

        Raises:
            SelectionError: A glob that matches no parameter.
            SpecError: The optimizer has no such setting, or no such value of it; a glob cuts a group in two.
        """
        found = []
        for name, value in values.items():
            if isinstance(value, Mapping):
                places = self._groups_of(name)
                found += [Change(each, self._fitted(each, wanted), places, name) for each, wanted in value.items()]
            else:
                found.append(Change(name, self._fitted(name, value), tuple(range(len(self._groups)))))
        return found

    def _groups_of(self, pattern: str) -> tuple[int, ...]:
        require_matches([pattern], [key for keys in self._keys for key in keys], "parameter")
        found = [[key for key in keys if matches(key, pattern)] for keys in self._keys]
        for taken, keys in zip(found, self._keys, strict=True):
            if taken and len(taken) < len(keys):
                raise SpecError(
                    f"{pattern!r} is a part of a group of parameters, which have their settings in common",
                    expected=f"a pattern for all of {listed(keys)}",
                    found=listed(taken),
                    fix="give it a group of its own where the optimizer is built: TrainingSpec(groups={...})",
                )
        return tuple(index for index, taken in enumerate(found) if taken)

    def _fitted(self, name: str, value: Any) -> Any:
        known = self.in_force()
        if name == _PARAMS or name not in known:
            near = closest(name, known)
            raise SpecError(
                f"{self._kind} has no setting {name}",
                expected=listed(known),
                found=name,
                fix=f"did you mean {' or '.join(near)}?" if near else "leave it out",
            )
        live = next(group[name] for group in self._groups if name in group)
        if isinstance(live, tuple) and isinstance(value, list):
            value = tuple(value)
        if isinstance(live, (int, float, tuple)) and not _is_like(value, live):
            kind = "a flag" if isinstance(live, bool) else "a number" if isinstance(live, (int, float)) else "a pair"
            raise SpecError(f"{self._kind} cannot be set to this", expected=f"{name}: {kind}", found=repr(value)[:80])
        return value

    def change(self, values: Settings) -> tuple[str, ...]:
        """Put settings into the groups.

        A new `lr` is the base from which a schedule counts: it goes on with the share that it had reached, and bounds
        of its own, as OneCycleLR and CyclicLR have them, keep their proportion to the base.

        Returns:
            What changed, in words.

        Raises:
            SelectionError: See `planned`; nothing was changed.
            SpecError: See `planned`; nothing was changed.
        """
        told = []
        for change in self.planned(values):
            before = [self._groups[place].get(change.name) for place in change.places]
            for place in change.places:
                self._set(place, change.name, change.value)
            if any(value != change.value for value in before):
                now = _alike([self._groups[place][change.name] for place in change.places])
                share = "" if now == change.value else f", {now} with its schedule"
                told.append(f"{change.where}{_alike(before)} -> {change.value}{share}")
        return tuple(told)

    def _set(self, place: int, name: str, value: Any) -> None:
        group = self._groups[place]
        base = group.get(_BASE)
        if name != "lr" or base is None:
            group[name] = value
            return

        def scaled(rate: float) -> float:
            return value if rate == base or not base else rate * value / base

        group.update({each: scaled(group[each]) for each in ("lr", _BASE, *_BOUNDS) if each in group})
        for scheduler in _schedulers(self._scheduler):
            for each in _RATES:
                if hasattr(scheduler, each):
                    rates = list(getattr(scheduler, each))
                    setattr(scheduler, each, [*rates[:place], scaled(rates[place]), *rates[place + 1 :]])


def _alike(values: Sequence[Any]) -> Any:
    """The value that all of them are, or a list of them."""
    found = list(values)
    return found[0] if found.count(found[0]) == len(found) else found


def _is_like(value: Any, live: Any) -> bool:
    if isinstance(live, bool):
        return isinstance(value, bool)
    if isinstance(live, tuple):
        return isinstance(value, tuple) and len(value) == len(live)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    return is_number or isinstance(value, torch.Tensor)


def _schedulers(scheduler: Any) -> Iterator[Any]:
    """A scheduler and those inside it."""
    if scheduler is not None:
        yield scheduler
    for inner in getattr(scheduler, "_schedulers", ()):
        yield from _schedulers(inner)
