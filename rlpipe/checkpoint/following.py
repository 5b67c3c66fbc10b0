"""Who has to be told when a component is restored: objects that hold copies of what it has learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from rlpipe.checkpoint.restorable import Restorable

_FOLLOWERS: WeakKeyDictionary[Restorable, list[tuple[ReferenceType[Any], Callable[[Any], None]]]] = WeakKeyDictionary()
"""Component -> object and function of each method to call."""

_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def follow(component: Restorable, method: Callable[[], None]) -> None:
    """Call a bound method after every restore into a component, by whatever way, once all states are set.

    Neither the component nor the method's object is kept alive by this. Following twice is following once.
    """
    owner: Any = method.__self__  # type: ignore[attr-defined]
    function: Callable[[Any], None] = method.__func__  # type: ignore[attr-defined]
    living = [(each, other) for each, other in _FOLLOWERS.get(component, []) if each() is not None]
    others = [(each, other) for each, other in living if each() is not owner or other is not function]
    _FOLLOWERS[component] = [*others, (ref(owner), function)]


@contextmanager
def quietly() -> Iterator[None]:
    """Inside, nobody is told: a copy is brought in step, which is no restore."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def tell(components: Iterable[Restorable]) -> None:
    """Call those who follow any of these components, or what they stand for, each once."""
    if _QUIET.get():
        return
    called: list[tuple[Any, Callable[[Any], None]]] = []
    for component in [found for each in components for found in (each, each.stands_for())]:
        for reference, function in _FOLLOWERS.get(component, []):
            owner = reference()
            if owner is not None and not any(owner is each and function is other for each, other in called):
                called.append((owner, function))
    for owner, function in called:
        function(owner)


def everything_in(component: Restorable) -> list[Restorable]:
    """A component and all that is in it."""
    inside = [found for _, child in component.get_checkpointable_components() for found in everything_in(child)]
    return [component, *inside]
