"""Names in settings that are one slip away from a name that is looked for: what is meant would be passed over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rlpipe.errors import ForeignFormatError

_LEAST = 4
"""Letters of a name; shorter ones are like too many others."""


def require_spelt(section: Any, names: Collection[str], *, where: str) -> None:
    """Check that no name of a section is a misspelt one of those that are looked for.

    Other names are the library's own, of this version or another one.

    Args:
        section: A mapping of the settings; anything else has no names.
        names: What is looked for.
        where: The section, with the file's name.

    Raises:
        ForeignFormatError: A name is missing, and another one is that name with a slip.
    """
    if not isinstance(section, Mapping):
        return
    for name in sorted(set(names) - section.keys()):
        near = [given for given in map(str, section) if given not in names and is_slip(given, name)]
        if near:
            raise ForeignFormatError(
                f"{where} has {near[0]}, which would be passed over",
                expected=name,
                found=near[0],
                fix=f"correct the name to {name} in the file, or do without the settings: source.params=none",
            )


def is_slip(given: str, name: str) -> bool:
    """Whether a text is a name with one letter too many, too few, another one, or two letters the other way round."""
    if len(name) < _LEAST or given == name or abs(len(given) - len(name)) > 1:
        return False
    at = next((index for index, (one, other) in enumerate(zip(given, name, strict=False)) if one != other), None)
    at = min(len(given), len(name)) if at is None else at
    rests = {given[at:], given[at + 1 :]}, {name[at:], name[at + 1 :]}
    swapped = given[at : at + 2] == name[at : at + 2][::-1] and given[at + 2 :] == name[at + 2 :]
    return swapped or bool(rests[0] & rests[1])
