"""Who has to be told when a component is restored: objects that hold copies of what it has learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakKeyDictionary, WeakMethod

from rlpipe.checkpoint.restorable import Restorable

_FOLLOWERS: WeakKeyDictionary[Restorable, list[WeakMethod[Callable[[], None]]]] = WeakKeyDictionary()


_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def follow(component: Restorable, method: Callable[[], None]) -> None:
    """Call a bound method after every restore into a component, by whatever way, once all states are set.

    Neither the component nor the method's object is kept alive by this. Following twice is following once.
    """
    followers = [each for each in _FOLLOWERS.get(component, []) if each() is not None]
    if method not in [each() for each in followers]:
        followers.append(WeakMethod(method))
    _FOLLOWERS[component] = followers


@contextmanager
def quietly() -> Iterator[None]:
    """Inside, nobody is told: a copy is brought in step, which is no restore."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def tell(components: Iterable[Restorable]) -> None:
    """Call those who follow any of these components, each once."""
    if _QUIET.get():
        return
    called: list[Callable[[], None]] = []
    for component in components:
        for reference in _FOLLOWERS.get(component, []):
            method = reference()
            if method is not None and method not in called:
                called.append(method)
    for method in called:
        method()


def everything_in(component: Restorable) -> list[Restorable]:
    """A component and all that is in it."""
    inside = [found for _, child in component.get_checkpointable_components() for found in everything_in(child)]
    return [component, *inside]
