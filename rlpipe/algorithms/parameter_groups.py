"""Groups of parameters that an optimizer treats in ways of their own, chosen by globs over parameter keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from rlpipe.errors import SelectionError, SpecError, closest, listed
from rlpipe.snapshot.selection import matches, require_matches
from rlpipe.snapshot.state import join

if TYPE_CHECKING:
    import torch

    from rlpipe.algorithms.optimizer_state import Named


def parameter_groups(named: Named, patterns: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A group for each pattern, without what an earlier one took, and one for the rest.

    Args:
        named: Dotted name -> parameter; all of them, frozen ones included.
        patterns: Glob over parameter keys such as "encoder/*" -> settings for those parameters.

    Raises:
        SelectionError: A pattern matches no parameter, or just what earlier ones took.
    """
    left = keys_of(named)
    require_matches(patterns, left, "parameter")
    groups = []
    for pattern, settings in patterns.items():
        taken = [key for key in left if matches(key, pattern)]
        if not taken:
            raise SelectionError(
                f"{pattern!r} matches only parameters that patterns before it have taken", pattern=pattern, known=left
            )
        groups.append({**settings, "params": [named[left.pop(key)] for key in taken]})
    rest = [named[name] for name in left.values()]
    return [*groups, *([{"params": rest}] if rest else [])]


def keys_of(named: Named) -> dict[str, str]:
    """Parameter key, as states have it -> dotted name."""
    return {join(*name.split(".")): name for name in named}


def require_known_settings(optimizer: torch.optim.Optimizer, patterns: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that the optimizer reads what patterns set, which torch does not.

    An optimizer without defaults does not say what it reads.

    Raises:
        SpecError: Settings that it does not have, all of them.
    """
    known: Collection[str] = optimizer.defaults
    strange = [(pattern, name) for pattern, settings in patterns.items() for name in settings if name not in known]
    if not known or not strange:
        return
    near = [name for _, wrong in strange for name in closest(wrong, known)]
    raise SpecError(
        f"{type(optimizer).__qualname__} has no setting {listed(sorted({name for _, name in strange}))}",
        expected=listed(sorted(known)),
        found=listed([f"{name} for {pattern}" for pattern, name in strange]),
        fix=f"did you mean {' or '.join(near)}?" if near else "leave it out of groups",
    )
