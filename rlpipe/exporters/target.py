"""What a file of `rlpipe.exporters.targets` has to offer; its id is its file name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from rlpipe.errors import ConfigError, closest, listed

if TYPE_CHECKING:
    from rlpipe.exporters.graph import ExportGraph

Arrays: TypeAlias = Mapping[str, "np.ndarray[Any, Any]"]
Step: TypeAlias = Callable[[Arrays], Arrays]


class Target(Protocol):
    """A target: a module of `rlpipe.exporters.targets`.

    Attributes:
        FILE_NAME: Name of the file that is run; others may lie beside it.
        BLOCKED: Packages that running the file must not need; verification makes them impossible to import.
        LOADING_RUNS_CODE: Whether a file made by an attacker could run code when it is loaded.
        LEGACY: Optional; why people should take another target where they can.
        operators: Optional; the names of what a file computes with, (path) -> names, without running it.
        Options: Frozen dataclass, at least with `atol` and `rtol` of the verification; `timeout`, if there is one, are
            the seconds after which an export is ended.
    """

    FILE_NAME: str
    BLOCKED: tuple[str, ...]
    LOADING_RUNS_CODE: bool
    Options: type[Any]

    def missing_dependency(self) -> str | None:
        """What to install, or None if nothing is missing; imports no heavy package."""

    def export(self, graph: ExportGraph, path: Path, options: Any, essentials: Mapping[str, str]) -> None:
        """Write the file and what it needs beside it, the essentials inside.

        Raises:
            UnsupportedModuleError: The target cannot express the policy.
        """

    def load(self, path: str) -> Step:
        """Open a file to run it. Its source text alone runs where rlpipe is not: it imports all it needs itself."""


def target_ids() -> tuple[str, ...]:
    """The ids of all targets, sorted; nothing is imported."""
    files = (Path(__file__).parent / "targets").glob("*.py")
    return tuple(sorted(file.stem for file in files if not file.stem.startswith("_")))


def resolve(target_id: str) -> Target:
    """The target of an id; an unknown one is a ConfigError with the closest ids."""
    if target_id not in (known := target_ids()):
        near = " or ".join(closest(target_id, known))
        fix = f"did you mean {near}?" if near else "choose one of the targets that exist"
        raise ConfigError(f"there is no target {target_id!r}", expected=listed(known), found=repr(target_id), fix=fix)
    return cast("Target", import_module(f"rlpipe.exporters.targets.{target_id}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """How an artifact is checked; the options of a target are these and its own.

    Attributes:
        atol: Absolute tolerance of the verification.
        rtol: Relative tolerance of the verification.
        timeout: Seconds after which the export is ended.
    """

    atol: float = 1e-5
    rtol: float = 1e-5
    timeout: float = 600.0

    def __post_init__(self) -> None:
        """Check the values; a target's file is called as the target is."""
        require_tolerances(type(self).__module__.rpartition(".")[2], atol=self.atol, rtol=self.rtol)


def require_tolerances(target_id: str, **tolerances: float) -> None:
    """Check the tolerances of a target's options, by name; any other would let every artifact pass, or none.

    Raises:
        ConfigError: One is negative, infinite or not a number.
    """
    for name, value in tolerances.items():
        if not (isfinite(value) and value >= 0):
            key = f"export.{target_id}.{name}"
            raise ConfigError(key, expected="a finite number, 0 or more", found=str(value), fix=f"{key}=1e-5")


def acts(target_id: str) -> bool:
    """Whether files of a target act by themselves; others hold weights, and have `compare` instead of `load`."""
    return hasattr(resolve(target_id), "load")


def install_hint(*packages: str) -> str | None:
    """How to get those of the packages that are missing, or None; for `missing_dependency`."""
    missing = [package for package in packages if find_spec(package) is None]
    return f"not installed: {listed(missing)}; pip install {' '.join(missing)}" if missing else None
