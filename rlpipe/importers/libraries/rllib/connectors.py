"""The pieces between environment and module that an env runner keeps, and what each one does to numbers.

Sources: ray/rllib/connectors/env_to_module, module_to_env and common; AlgorithmConfig.build_env_to_module_connector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpipe.errors import ForeignFormatError, listed
from rlpipe.importers.libraries.rllib.constructors import Constructor, constructor_of, read_constructor
from rlpipe.importers.libraries.rllib.folders import ARGS, CONNECTORS

MODULE_TO_ENV = "module_to_env_connector"
FILTER, FLATTEN, STACK = "MeanStdFilter", "FlattenObservations", "FrameStacking"
NORMALIZE = "NormalizeAndClipActions"
_HARMLESS = frozenset(
    {
        *("AddObservationsFromEpisodesToBatch", "AddTimeDimToBatchAndZeroPad", "AddStatesFromEpisodesToBatch"),
        *("AgentToModuleMapping", "BatchIndividualItems", "NumpyToTensor"),
        *("GetActions", "TensorToNumpy", "UnBatchToIndividualItems", "ModuleToAgentUnmapping"),
        *("RemoveSingleTsTimeRankFromBatch", "ListifyDataForVectorEnv"),
    }
)
"""Pieces that only move numbers between episodes, batches and tensors."""

_KNOWN = frozenset({FILTER, FLATTEN, STACK, NORMALIZE})


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Connectors:
    """What stands between environment and modules.

    Attributes:
        folder: Directory of the pieces before the modules, where those with a state keep it.
        observation_space: The environment's, as pickled; for several agents a Dict of theirs.
        before: The pieces before the modules that change observations, in their order.
        after: The piece that brings actions to the environment's bounds, or None.
    """

    folder: Path
    observation_space: Any
    before: tuple[Constructor, ...]
    after: Constructor | None

    @property
    def normalizes_actions(self) -> bool:
        """Whether actions are meant to lie in -1..1, and are brought to the bounds of the environment."""
        return self.after is not None and self.after.kwargs.get("normalize_actions") is True

    @property
    def clips_actions(self) -> bool:
        """Whether actions are cut at the bounds, where they are not brought to them."""
        return self.after is not None and self.after.kwargs.get("clip_actions") is True


def read_connectors(runner: Path) -> Connectors | None:
    """The connectors of an env runner; None where it kept none.

    Raises:
        ForeignFormatError: A piece that does something to observations or actions that is not known here.
        UnsafePayloadError: A file is broken.
    """
    folder = runner / CONNECTORS
    if not (folder / ARGS).is_file() or not (runner / MODULE_TO_ENV / ARGS).is_file():
        return None
    before, after = read_constructor(folder), read_constructor(runner / MODULE_TO_ENV)
    _, changing = _pieces(before), _pieces(after)
    return Connectors(
        folder=folder,
        observation_space=before.args[0] if before.args else None,
        before=_pieces(before),
        after=changing[-1] if changing else None,
    )


def _pieces(pipeline: Constructor) -> tuple[Constructor, ...]:
    """The pieces of a pipeline that change numbers."""
    found = pipeline.kwargs.get("connectors")
    subject = f"the connector pipeline {pipeline.class_name}"
    entries = found if isinstance(found, (list, tuple)) else ()
    pieces = [constructor_of(entry[0], entry[1:], subject=subject) for entry in entries if _is_entry(entry)]
    unknown = [piece for piece in pieces if piece.class_name not in _KNOWN | _HARMLESS or not _is_own(piece)]
    if unknown or len(pieces) != len(entries):
        raise _unknown(subject, (piece.class_path for piece in unknown))
    return tuple(piece for piece in pieces if piece.class_name in _KNOWN)


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, (tuple, list)) and len(entry) == 3


def _is_own(piece: Constructor) -> bool:
    return piece.class_path.startswith("ray.rllib.connectors.")


def _unknown(subject: str, names: Iterable[str]) -> ForeignFormatError:
    return ForeignFormatError(
        f"{subject} changes observations or actions in a way that cannot be imported",
        expected=f"RLlib's own default connectors, {FLATTEN}, {STACK} and {FILTER}",
        found=listed(names) or "pieces of an unknown form",
        fix="copy the directory rl_module/<id> out and import that: the policy then takes what the connectors put out",
    )


def agents_of(space: Any) -> Mapping[str, Any]:
    """Agent -> observation space as pickled, of a Dict of several agents' spaces."""
    spaces = space.attribute("spaces") if hasattr(space, "attribute") else None
    return {str(name): one for name, one in spaces.items()} if isinstance(spaces, dict) else {}
