"""What every space can do, and how two spaces are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from rlpipe.errors import SpaceError, closest, listed
from rlpipe.snapshot.dtypes import DType
from rlpipe.snapshot.spec import Json, canonical_json
from rlpipe.snapshot.state import Array

if TYPE_CHECKING:
    from typing import Self

Batch: TypeAlias = Any
"""Values of a space stacked along a first axis: an array, or a dict or tuple of batches."""

Use = Literal["observation", "action"]
Severity = Literal["error", "warning"]
Parse: TypeAlias = Callable[[Json, str], "Space"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between two spaces.

    Attributes:
        severity: "error" if a policy for one cannot serve the other, "warning" if it can but may act badly.
        text: What differs, with both sides.
    """

    severity: Severity
    text: str

    def under(self, name: str) -> Finding:
        """The same finding, seen from the space that holds this one under `name`."""
        return Finding(self.severity, f"{name}: {self.text}")


class Space(ABC):
    """A set of values: frozen, compared bit for bit, with a JSON form."""

    __slots__ = ()

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """A batch of `n` random values, drawn as gymnasium draws them."""

    @abstractmethod
    def corners(self, n: int, rng: np.random.Generator) -> Batch:
        """A batch of `n` extreme values: every element at its lowest or at its highest."""

    @abstractmethod
    def contains(self, batch: Batch) -> bool:
        """Whether every value of the batch, stacked along the first axis, is in the space."""

    @abstractmethod
    def describe(self) -> str:
        """The space on one line."""

    @abstractmethod
    def node(self) -> dict[str, Json]:
        """Its JSON without the version."""

    @classmethod
    @abstractmethod
    def of_node(cls, node: Mapping[str, Json], where: str, parse: Parse) -> Self:
        """The space of its JSON; `parse` reads the spaces inside, `where` names the node in errors."""

    @abstractmethod
    def differences(self, found: Self, use: Use) -> Iterator[Finding]:
        """How `found`, of the same kind, differs from this space."""

    @abstractmethod
    def as_gymnasium(self, kinds: Any) -> Any:
        """The space made of the classes of `gymnasium.spaces`, which is `kinds`."""

    @classmethod
    @abstractmethod
    def of_gymnasium(cls, space: Any, convert: Callable[[Any], Space]) -> Self:
        """The space of gymnasium's; `convert` takes the spaces inside."""

    def leaves(self, prefix: str) -> Iterator[tuple[str, Leaf]]:
        """The leaves with their flat names, sorted at every level."""
        raise NotImplementedError

    def flat(self, batch: Batch, prefix: str) -> dict[str, Array]:
        """The arrays of a batch by flat name."""
        raise NotImplementedError

    def nest(self, arrays: Mapping[str, Array], prefix: str) -> Batch:
        """The batch of arrays by flat name, the inverse of `flat`."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and type(self) is type(other) and self._text() == other._text()

    def __hash__(self) -> int:
        return hash(self._text())

    def __repr__(self) -> str:
        return self.describe()

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # Copies are made by the constructor, so that they too keep equal bounds once and read-only.
        names: tuple[str, ...] = type(self).__slots__
        return type(self), tuple(getattr(self, name) for name in names)

    def _text(self) -> str:
        return canonical_json(self.node())


class Leaf(Space):
    """A space whose batch is one array of (n, *shape)."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]:
            """Shape of one value."""

        @property
        def dtype(self) -> DType:
            """Dtype of every value."""

    def leaves(self, prefix: str) -> Iterator[tuple[str, Leaf]]:
        """The space itself."""
        yield prefix, self

    def flat(self, batch: Batch, prefix: str) -> dict[str, Array]:
        """The batch under its only name."""
        return {prefix: batch}

    def nest(self, arrays: Mapping[str, Array], prefix: str) -> Batch:
        """The array of its only name."""
        return arrays[prefix]


def compare(expected: Space, found: Space, *, use: Use = "observation") -> list[Finding]:
    """How `found` differs from `expected`, in what matters to a policy.

    Shapes, counts, starts, keys and kinds that differ are errors. So are bounds of actions; bounds and dtypes of
    observations are warnings. An infinite bound equals the largest number of its type. The order of keys is nothing.
    """
    if type(expected) is not type(found):
        return [Finding("error", f"expected {expected.describe()}, found {found.describe()}")]
    return list(expected.differences(found, use))


def differ(severity: Severity, what: str, expected: object, found: object) -> Iterator[Finding]:
    """One finding if the two values differ, else none."""
    if expected != found:
        yield Finding(severity, f"{what}: expected {expected}, found {found}")


def fields(
    node: Mapping[str, Json], where: str, *, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, Json]:
    """The node, after a check of its names.

    Raises:
        SpaceError: A required field is missing, or there is an unknown one.
    """
    known = ("type", *required, *optional)
    missing = [name for name in required if name not in node]
    unknown = [name for name in node if name not in known]
    if missing or unknown:
        found = [*(f"no {name}" for name in missing), *(f"unknown {name}" for name in unknown)]
        # The version is read before: it is of the whole, and not of a space inside.
        near = [guess for name in unknown for guess in closest(str(name), (*known, "version"))]
        fix = f"did you mean {' or '.join(near)}?" if near else ""
        raise SpaceError(f"{where}: wrong fields", expected=", ".join(known), found=listed(found), fix=fix)
    return node


def whole(value: object, where: str, *, at_least: int | None = None) -> int:
    """The value as an int.

    Raises:
        SpaceError: It is none, or too small.
    """
    limit = "" if at_least is None else f" of at least {at_least}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise SpaceError(f"{where} is no whole number", expected=f"a whole number{limit}", found=repr(value))
    if at_least is not None and value < at_least:
        raise SpaceError(f"{where} is too small", expected=f"a whole number{limit}", found=repr(value))
    return int(value)


def wholes(value: object, where: str) -> tuple[int, ...]:
    """The value as a shape: a tuple of sizes.

    Raises:
        SpaceError: It is no list of whole numbers of at least 0.
    """
    if not isinstance(value, list | tuple):
        raise SpaceError(f"{where} is no shape", expected="a list of sizes", found=repr(value))
    return tuple(whole(size, where, at_least=0) for size in value)
