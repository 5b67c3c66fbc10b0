"""What builds a component of layout 2: its class and arguments, with inert stand-ins for everything not plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.files import read_pickle
from rlpipe.importers.libraries.rllib.folders import ARGS
from rlpipe.importers.restricted.values import Name, Record


@dataclass(frozen=True, slots=True, eq=False)
class Constructor:
    """How RLlib would build a component.

    Attributes:
        class_path: Dotted path of its class.
        args: Arguments by position.
        kwargs: Arguments by name.
    """

    class_path: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def class_name(self) -> str:
        """The class without its module."""
        return self.class_path.rpartition(".")[2]


def read_constructor(folder: Path) -> Constructor:
    """The class and arguments of the component in a directory.

    Raises:
        ForeignFormatError: The file is missing, or says something else.
        UnsafePayloadError: It is broken.
    """
    found = read_pickle(folder / ARGS)
    kind, arguments = found.get("class"), found.get("ctor_args_and_kwargs")
    return constructor_of(kind, arguments, subject=f"{ARGS} of {folder.name}")


def constructor_of(kind: Any, arguments: Any, *, subject: str) -> Constructor:
    """The constructor of a class as a pickle names it, and its (args, kwargs).

    Raises:
        ForeignFormatError: They are something else.
    """
    path = kind.path if isinstance(kind, Name) else kind.class_path if isinstance(kind, Record) else None
    if path is None or not isinstance(arguments, (tuple, list)) or len(arguments) != 2:
        raise ForeignFormatError(
            f"{subject} says nothing that is known",
            expected="a class, and its arguments by position and by name",
            found=f"{type(kind).__name__}, {type(arguments).__name__}",
            fix="save the checkpoint again with RLlib",
        )
    args, kwargs = arguments
    return Constructor(path, tuple(args) if isinstance(args, (tuple, list)) else (), plain_fields(kwargs))


def plain_fields(value: Any) -> Mapping[str, Any]:
    """The fields of a dict, or of a dataclass that was pickled; {} for anything else."""
    if isinstance(value, Record):
        value = value.state
    return value if isinstance(value, dict) else {}
