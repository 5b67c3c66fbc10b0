"""The one value that everything moves: what a thing is and what it has learnt, as a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Literal, Self, TypeAlias, TypeVar

from numpy import ndarray  # asking the module for it takes as long as all the rest of a step of the loops here

from rlpipe.errors import SelectionError, StateMismatchError
from rlpipe.snapshot.spec import Json, Spec
from rlpipe.snapshot.state import State, arrays, entries

Role: TypeAlias = Literal["inference", "training"]
Key = TypeVar("Key", str, tuple[str, str])
ROLES: tuple[Role, ...] = ("inference", "training")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a component is, what it has learnt, and the components in it.

    Attributes:
        spec: What it is.
        state: What it has learnt, without its children.
        roles: Entry key -> role, one for each entry of the state.
        children: Name -> component inside.
        metadata: Plain JSON for people and reports; not part of the identity.
        whole: False for what `select` left incomplete: such a part can be merged, and never brings its spec along.
    """

    spec: Spec
    state: State = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)
    children: Mapping[str, Snapshot] = field(default_factory=dict)
    metadata: Mapping[str, Json] = field(default_factory=dict)
    whole: bool = True

    def __post_init__(self) -> None:
        """Check that every entry has a role and every role an entry."""
        keys = entries(self.state).keys()
        if keys != self.roles.keys():
            raise StateMismatchError(
                f"roles of {self.spec.class_path} do not cover its state",
                missing=keys - self.roles.keys(),
                unexpected=self.roles.keys() - keys,
                fix="give each entry of the state one role",
            )

    @classmethod
    def unchecked(
        cls,
        spec: Spec,
        state: State,
        roles: Mapping[str, Role],
        children: Mapping[str, Snapshot],
        metadata: Mapping[str, Json],
        *,
        whole: bool,
    ) -> Self:
        """A snapshot of a state and roles that were made to fit; a large tree is made of hundreds of these."""
        snapshot = object.__new__(cls)
        # A frozen dataclass has no other way around its own __post_init__.
        snapshot.__dict__.update(spec=spec, state=state, roles=roles, children=children, metadata=metadata, whole=whole)
        return snapshot


def walk(snapshot: Snapshot, path: str = "") -> Iterator[tuple[str, Snapshot]]:
    """Every component with its path, parents first; the root's path is ""."""
    yield path, snapshot
    for name in sorted(snapshot.children):
        yield from walk(snapshot.children[name], below(path, name))


def below(path: str, name: str) -> str:
    """The path of the child `name` of the component at `path`; also the full key of an entry in it."""
    return f"{path}/{name}" if path else name


def component(snapshot: Snapshot, path: str) -> Snapshot:
    """The component at a path.

    Raises:
        SelectionError: There is none; the closest paths are named.
    """
    found = dict(walk(snapshot))
    if path not in found:
        raise SelectionError(f"there is no component {path!r}", pattern=path, known=[name for name in found if name])
    return found[path]


def ties(snapshot: Snapshot) -> tuple[tuple[str, ...], ...]:
    """Groups of full array keys that are one array in memory: same address, dtype, shape and strides, not empty."""
    named = {below(path, key): array for path, part in walk(snapshot) for key, array in arrays(part.state).items()}
    return tied(named)


def tied(named: Mapping[Key, Any]) -> tuple[tuple[Key, ...], ...]:
    """Groups of names whose arrays are one in memory, each sorted."""
    looks = list(map(_first_number, named.values()))
    times = Counter(looks)
    groups: dict[Any, list[Key]] = {}
    for name in compress(named, [times[each] > 1 for each in looks]):
        groups.setdefault(_memory(named[name]), []).append(name)
    return tuple(sorted(tuple(sorted(names)) for names in groups.values() if len(names) > 1))


def are_apart(arrays: Collection[Any]) -> bool:
    """Whether it is plain that no two are one: all own their memory, and are different objects."""
    own = all(type(each) is ndarray and each.base is None for each in arrays)
    return own and len(set(map(id, arrays))) == len(arrays)


def _first_number(array: Any) -> Any:
    """A value that is equal for arrays that are one, and cheap: asking numpy for an address takes ten times as long."""
    if not isinstance(array, ndarray) or not array.size:
        return id(array)
    number = array.item(0)
    return number if number == number else "nan"  # noqa: PLR0124  a nan is not equal to itself


def _memory(array: Any) -> Any:
    """A value that is equal for arrays that are one; unique for empty ones."""
    if not isinstance(array, ndarray):
        return id(array)
    if not array.size:
        return object()
    return (array.__array_interface__["data"][0], array.dtype, array.shape, array.strides)


def entry_of(array_key: str, entries: Collection[str]) -> str:
    """The entry that an array key lies in: itself, or the list or tuple above it."""
    while array_key not in entries and "/" in array_key:
        array_key = array_key.rpartition("/")[0]
    return array_key
