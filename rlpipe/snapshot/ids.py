"""Ids of policies and other components: names that are a directory on every system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from rlpipe.errors import IdError, listed

_MOST_BYTES = 200
_PUNCTUATION = "_-."
_FILES = ("manifest.json", "state.h5", "state.pkl", "model")
_DEVICES = ("con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)))
_TAME = re.compile(r"[A-Za-z0-9_-]{1,200}")
_TAKEN = frozenset({*_FILES, *_DEVICES})
_MOST_PATH_BYTES = 1000
_UNSAFE = frozenset('\\:*?"<>|')
_PATH_RULE = f"names joined with /, each at most {_MOST_BYTES} bytes, without {' '.join(sorted(_UNSAFE))}"
_RULE = f"letters, digits and {' '.join(_PUNCTUATION)}, at most {_MOST_BYTES} bytes, no dot at either end"


def validate_policy_id(policy_id: str) -> str:
    """The id, if it can name a policy.

    RLlib's function of this name only warns unless it is told to raise; this one always raises.

    Raises:
        IdError: All that is wrong with it.
    """
    return validate_id(policy_id, kind="policy id")


def validate_id(value: str, *, kind: str = "id") -> str:
    """The id, if it can name a component's directory.

    Args:
        value: The id.
        kind: How errors name it.

    Raises:
        IdError: All that is wrong with it.
    """
    if problems := list(_problems(value)):
        raise IdError(
            f"{kind} {value!r} cannot name a directory", expected=_RULE, found=listed(problems), fix=_fix(value)
        )
    return value


def validate_ids(values: Iterable[str], *, kind: str = "policy id") -> tuple[str, ...]:
    """The ids, if each can name a directory and no two name the same one on a system that ignores case.

    Args:
        values: The ids.
        kind: How errors name them.

    Raises:
        IdError: All that is wrong with any of them.
    """
    ids = tuple(values)
    if _are_tame(ids):
        return ids
    problems = [f"{value!r}: {problem}" for value in ids for problem in _problems(value)]
    problems += _clashes(value for value in ids if isinstance(value, str))
    if problems:
        raise IdError(
            f"{kind}s that cannot stand side by side", expected=_RULE, found=listed(problems), fix="rename one of them"
        )
    return ids


def validate_file_paths(values: Iterable[str]) -> tuple[str, ...]:
    """The paths, joined with "/", if they can name files side by side below a directory on every system.

    Raises:
        IdError: All that is wrong with any of them.
    """
    paths = tuple(values)
    problems = [f"{path!r}: {problem}" for path in paths for problem in _path_problems(path)] or _path_clashes(paths)
    if problems:
        raise IdError(
            "these files cannot lie side by side", expected=_PATH_RULE, found=listed(problems), fix="rename them"
        )
    return paths


def _path_problems(path: str) -> Iterator[str]:
    """What no system, or not every one, can have as the path of a file below a directory."""
    try:
        sizes = [len(name.encode()) for name in path.split("/")]
    except UnicodeEncodeError:
        yield "it is no Unicode text"
        return
    if min(sizes) == 0 or max(sizes) > _MOST_BYTES or sum(sizes) > _MOST_PATH_BYTES:
        yield "an empty name, or a long one"
    if wrong := sorted({char for char in path if char in _UNSAFE or unicodedata.category(char) == "Cc"}):
        yield f"characters {' '.join(map(repr, wrong))}"
    if not unicodedata.is_normalized("NFC", path):
        yield "it is not in Unicode's composed form (NFC)"
    for name in path.split("/"):
        if name.endswith((".", " ")) or name.casefold().split(".")[0] in _DEVICES:
            yield f"the name {name!r}"


def _path_clashes(paths: Iterable[str]) -> list[str]:
    """Paths that are one where case does not matter, and files that would have to be directories too."""
    files = set(map(_folded, paths))
    above = {path[: match.start()] for path in files for match in re.finditer("/", path)}
    return [f"{path!r} twice" for path in sorted(files & above)] + _clashes(paths)


def _are_tame(values: tuple[object, ...]) -> bool:
    """Whether nothing can be wrong with the ids of a usual run, which most are, without asking for each problem."""
    ids = [value for value in values if type(value) is str and _TAME.fullmatch(value)]
    folded = set(map(str.casefold, ids))
    return len(folded) == len(values) and folded.isdisjoint(_TAKEN)


def _no_text(value: object) -> str:
    kind = type(value).__name__
    # Of a member of an Enum that is a str too.
    return (
        f"a {kind}, which is written {str(value)!r}: give its text"
        if isinstance(value, str)
        else f"a {kind}, not a str"
    )


def _problems(value: object) -> Iterator[str]:
    if not isinstance(value, str) or f"{value}" != str.__str__(value):
        yield _no_text(value)
        return
    if _TAME.fullmatch(value) and value.casefold() not in _TAKEN:
        return
    if not value:
        yield "it is empty"
        return
    if wrong := sorted({char for char in value if not _allowed(char)}):
        yield f"characters {' '.join(map(repr, wrong))}"
    if not unicodedata.is_normalized("NFC", value):
        yield "it is not in Unicode's composed form (NFC)"
    if (size := len(value.encode("utf-8", "surrogatepass"))) > _MOST_BYTES:
        yield f"{size} bytes"
    if value[0] == "." or value[-1] == ".":
        yield "a dot at an end"
    if value.casefold() in _FILES:
        yield "the name of a file that checkpoints have"
    if value.casefold().split(".")[0] in _DEVICES:
        yield "the name of a device on Windows"


def _allowed(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] == "L" or category == "Nd" or char in _PUNCTUATION


def _folded(value: str) -> str:
    """What two names have in common where case does not matter."""
    folded = value.casefold()
    return folded if folded.isascii() else unicodedata.normalize("NFC", folded)


def _fix(value: object) -> str:
    """A close id that is right, if there is one."""
    if not isinstance(value, str):
        return "give it as text"
    tame = "".join(char if _allowed(char) else "_" for char in unicodedata.normalize("NFC", value)).strip(".")
    return f"for example {tame!r}" if tame and not list(_problems(tame)) else "choose another name"


def _clashes(values: Iterable[str]) -> list[str]:
    named = [(value, _folded(value)) for value in values]
    if len({folded for _, folded in named}) == len(named):
        return []
    groups: dict[str, list[str]] = {}
    for value, folded in named:
        groups.setdefault(folded, []).append(value)
    return [f"{' and '.join(map(repr, group))} are one name" for group in groups.values() if len(group) > 1]
