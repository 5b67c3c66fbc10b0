"""Spaces made of spaces, by key or by index."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpipe.errors import SpaceError, listed
from rlpipe.snapshot.spaces.space import Batch, Finding, Leaf, Parse, Space, Use, compare, fields
from rlpipe.snapshot.state import Array

if TYPE_CHECKING:
    from rlpipe.snapshot.spec import Json


class _Composite(Space):
    """What Dict and Tuple share: they act part by part."""

    __slots__ = ()

    @abstractmethod
    def _parts(self) -> Mapping[str, Space]:
        """The spaces inside, by flat name, in order."""

    @abstractmethod
    def _made(self, values: list[Any]) -> Batch:
        """A batch of the parts' batches, in order."""

    @abstractmethod
    def _taken(self, batch: Batch) -> list[Any]:
        """The parts' batches in order, the inverse of `_made`; SpaceError where they are others."""

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """A batch of `n` random values of every part."""
        return self._made([space.sample(n, rng) for space in self._parts().values()])

    def corners(self, n: int, rng: np.random.Generator) -> Batch:
        """A batch of `n` extreme values of every part."""
        return self._made([space.corners(n, rng) for space in self._parts().values()])

    def contains(self, batch: Batch) -> bool:
        """Whether the batch has just the parts, and each part's batch is in its space."""
        try:
            values, arrays = self._taken(batch), self.flat(batch, "").values()
        except SpaceError:
            return False
        sizes = {np.shape(array)[:1] for array in arrays}
        parts = zip(self._parts().values(), values, strict=True)
        return len(sizes) <= 1 and all(space.contains(value) for space, value in parts)

    def leaves(self, prefix: str) -> Iterator[tuple[str, Leaf]]:
        """The parts' leaves, their names below this space's."""
        for name, space in self._parts().items():
            yield from space.leaves(f"{prefix}.{name}")

    def flat(self, batch: Batch, prefix: str) -> dict[str, Array]:
        """The parts' arrays by flat name."""
        arrays: dict[str, Array] = {}
        for (name, space), value in zip(self._parts().items(), self._taken(batch), strict=True):
            arrays.update(space.flat(value, f"{prefix}.{name}"))
        return arrays

    def nest(self, arrays: Mapping[str, Array], prefix: str) -> Batch:
        """The batch of arrays by flat name."""
        return self._made([space.nest(arrays, f"{prefix}.{name}") for name, space in self._parts().items()])

    def differences(self, found: _Composite, use: Use) -> Iterator[Finding]:
        """Missing and further parts are errors; the rest is the parts' own."""
        ours, theirs = self._parts(), found._parts()
        for name in sorted({*ours, *theirs}):
            if name not in theirs:
                yield Finding("error", f"{name}: expected {ours[name].describe()}, found nothing")
            elif name not in ours:
                yield Finding("error", f"{name}: expected nothing, found {theirs[name].describe()}")
            else:
                yield from (finding.under(name) for finding in compare(ours[name], theirs[name], use=use))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dict(_Composite):
    """Spaces by key. The keys are kept sorted: their order says nothing.

    Attributes:
        spaces: The spaces inside; not to be changed.

    Raises:
        SpaceError: A key that is no str, or a value that is no space.
    """

    spaces: Mapping[str, Space]

    def __post_init__(self) -> None:
        for key, space in self.spaces.items():
            if not isinstance(key, str) or not isinstance(space, Space):
                raise SpaceError("this cannot be in a Dict", expected="a str and a space", found=f"{key!r}: {space!r}")
        object.__setattr__(self, "spaces", dict(sorted(self.spaces.items())))

    def _parts(self) -> Mapping[str, Space]:
        return self.spaces

    def _made(self, values: list[Any]) -> Batch:
        return dict(zip(self.spaces, values, strict=True))

    def _taken(self, batch: Batch) -> list[Any]:
        if not isinstance(batch, Mapping) or sorted(map(str, batch)) != list(self.spaces):
            found = listed(map(str, batch)) if isinstance(batch, Mapping) else type(batch).__name__
            raise SpaceError("wrong keys", expected=f"a dict of {listed(self.spaces)}", found=found)
        return [batch[key] for key in self.spaces]

    def describe(self) -> str:
        """Such as "Dict(mode: Discrete(3), position: Box(-1..1, (2,), float32))"."""
        shown = {key if key.isprintable() and key else repr(key): space for key, space in self.spaces.items()}
        return f"Dict({', '.join(f'{key}: {space.describe()}' for key, space in shown.items())})"

    def node(self) -> dict[str, Json]:
        """The nodes inside by key."""
        return {"type": "Dict", "spaces": {key: space.node() for key, space in self.spaces.items()}}

    @classmethod
    def of_node(cls, node: Mapping[str, Json], where: str, parse: Parse) -> Dict:
        """The space of its JSON."""
        spaces = fields(node, where, required=("spaces",))["spaces"]
        if not isinstance(spaces, Mapping):
            raise SpaceError(f"spaces of {where} are wrong", expected="an object", found=type(spaces).__name__)
        return cls({key: parse(space, f"{where}.{key}") for key, space in spaces.items()})

    def as_gymnasium(self, kinds: Any) -> Any:
        """A `gymnasium.spaces.Dict`."""
        return kinds.Dict({key: space.as_gymnasium(kinds) for key, space in self.spaces.items()})

    @classmethod
    def of_gymnasium(cls, space: Any, convert: Callable[[Any], Space]) -> Dict:
        """The space of a `gymnasium.spaces.Dict`."""
        return cls({key: convert(part) for key, part in space.spaces.items()})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuple(_Composite):
    """Spaces by index.

    Attributes:
        spaces: The spaces inside.

    Raises:
        SpaceError: A value that is no space.
    """

    spaces: tuple[Space, ...]

    def __post_init__(self) -> None:
        for space in self.spaces:
            if not isinstance(space, Space):
                raise SpaceError("this cannot be in a Tuple", expected="a space", found=repr(space))
        object.__setattr__(self, "spaces", tuple(self.spaces))

    def _parts(self) -> Mapping[str, Space]:
        return {str(index): space for index, space in enumerate(self.spaces)}

    def _made(self, values: list[Any]) -> Batch:
        return tuple(values)

    def _taken(self, batch: Batch) -> list[Any]:
        if not isinstance(batch, tuple | list) or len(batch) != len(self.spaces):
            found = f"{len(batch)} parts" if isinstance(batch, tuple | list) else type(batch).__name__
            raise SpaceError("wrong number of parts", expected=f"a tuple of {len(self.spaces)}", found=found)
        return list(batch)

    def describe(self) -> str:
        """Such as "Tuple(Discrete(2), MultiBinary(4))"."""
        return f"Tuple({', '.join(space.describe() for space in self.spaces)})"

    def node(self) -> dict[str, Json]:
        """The nodes inside in order."""
        return {"type": "Tuple", "spaces": [space.node() for space in self.spaces]}

    @classmethod
    def of_node(cls, node: Mapping[str, Json], where: str, parse: Parse) -> Tuple:
        """The space of its JSON."""
        spaces = fields(node, where, required=("spaces",))["spaces"]
        if not isinstance(spaces, list | tuple):
            raise SpaceError(f"spaces of {where} are wrong", expected="a list", found=type(spaces).__name__)
        return cls(tuple(parse(space, f"{where}.{index}") for index, space in enumerate(spaces)))

    def as_gymnasium(self, kinds: Any) -> Any:
        """A `gymnasium.spaces.Tuple`."""
        return kinds.Tuple([space.as_gymnasium(kinds) for space in self.spaces])

    @classmethod
    def of_gymnasium(cls, space: Any, convert: Callable[[Any], Space]) -> Tuple:
        """The space of a `gymnasium.spaces.Tuple`."""
        return cls(tuple(convert(part) for part in space.spaces))
