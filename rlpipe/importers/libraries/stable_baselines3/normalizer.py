"""Which VecNormalize statistics belong to a zip: the ones named, the ones proved, or none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpipe.errors import NormalizerError, RlpipeError, UnsafePayloadError, listed
from rlpipe.importers.libraries.stable_baselines3.container import SavedModel
from rlpipe.importers.libraries.stable_baselines3.statistics import (
    Evidence,
    Statistics,
    Traces,
    disproof,
    open_question,
    read_statistics,
    same,
    traces_of,
    weigh,
)
from rlpipe.snapshot.spaces import Box, Space

AUTO, NONE = "auto", "none"
_CHECKPOINT = re.compile(r"(.*)_(\d+)_steps")
_HEAD = 512
_MOST_BYTES = 64 * 2**20
_FIX = "name the file: source.normalizer=vecnormalize.pkl; if observations were not normalised: source.normalizer=none"
_WORDS = {
    Evidence.PROVED: "proved: it turns the last raw observation into the one that the policy saw",
    Evidence.LIKELY: "not proved, but its number of samples is that of the training",
    Evidence.UNPROVED: "not proved by what the zip keeps",
    Evidence.REFUTED: "against what the zip says: it was saved at another time or in another training",
}


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The statistics to use, or None, and what people should know about it.

    Attributes:
        statistics: The statistics.
        notes: Sentences; where statistics were found, the first says how they fit.
        is_proved: Whether the zip proves that they belong to it.
    """

    statistics: Statistics | None
    notes: tuple[str, ...] = ()
    is_proved: bool = False

    @property
    def normalizing(self) -> Statistics | None:
        """The statistics, unless they leave observations alone."""
        return self.statistics if self.statistics is not None and self.statistics.mean is not None else None


def choose(model: SavedModel, path: Path, normalizer: str, space: Space, *, off_policy: bool) -> Choice:
    """The statistics for a zip.

    Args:
        model: The zip.
        path: Where it lies; statistics are looked for beside it.
        normalizer: "auto", "none" or the path of a file.
        space: The observation space.
        off_policy: Whether the algorithm learns from a replay buffer; these keep the last raw observation beside the
            one that the policy saw.

    Raises:
        NormalizerError: They are needed and missing, do not fit, or cannot be told apart.
    """
    if not isinstance(space, Box):
        return _without_statistics(model, normalizer)
    traces = traces_of(model, space.shape, off_policy=off_policy)
    under = _trained_normalized(model, traces, space, off_policy=off_policy)
    if normalizer == NONE:
        said = "it was trained under VecNormalize, and source.normalizer=none leaves the statistics out"
        return Choice(None, (said,) if under else ())
    if normalizer != AUTO:
        return _named(Path(normalizer), path, traces)
    if under is False:
        return Choice(None)
    return _found(model, path, traces, under=under is True)


def _without_statistics(model: SavedModel, normalizer: str) -> Choice:
    if normalizer in (AUTO, NONE):
        return Choice(None)
    raise NormalizerError(
        f"{model.name} takes observations that are not numbers to normalise",
        expected="source.normalizer=none",
        found=normalizer,
        fix="leave source.normalizer at auto",
    )


def _trained_normalized(model: SavedModel, traces: Traces, space: Box, *, off_policy: bool) -> bool | None:
    """Whether the policy was trained under VecNormalize; None where the zip does not say."""
    if not off_policy:
        if model.data.get("_last_original_obs") is not None:
            return True
        return False if traces.steps and "_last_original_obs" in model.data else None
    if traces.seen is None or traces.raw is None:
        return None
    outside = bool(np.any((traces.seen < space.low) | (traces.seen > space.high)))
    inside = bool(np.all((traces.raw >= space.low) & (traces.raw <= space.high)))
    return True if outside and inside else None


def _named(path: Path, zip_path: Path, traces: Traces) -> Choice:
    statistics = read_statistics(path)
    if statistics.mean is not None and statistics.mean.shape != traces.shape:
        raise NormalizerError(
            f"{path} is for other observations",
            expected=f"statistics of shape {traces.shape}",
            found=f"statistics of shape {statistics.mean.shape}",
            fix="name the file that was saved with this model",
        )
    if (against := disproof(statistics, traces)) is not None:
        expected, found = against
        raise NormalizerError(
            f"{path} is not what {zip_path.name} was trained with",
            expected=expected,
            found=found,
            fix="name the file that was saved together with this model; source.normalizer=auto looks for it beside it",
        )
    evidence = weigh(statistics, traces, paired=_saved_together(zip_path, path))
    said = f"{statistics.name} as named; {_told(statistics, traces, evidence)}"
    return Choice(statistics, (said,), evidence is Evidence.PROVED)


def _told(statistics: Statistics, traces: Traces, evidence: Evidence) -> str:
    """How statistics fit, with what a proof leaves open."""
    rest = open_question(statistics, traces) if evidence is Evidence.PROVED else ""
    return f"{_WORDS[evidence]} ({rest})" if rest else _WORDS[evidence]


def _found(model: SavedModel, path: Path, traces: Traces, *, under: bool) -> Choice:
    files = {str(file.relative_to(path.absolute().parent)): file for file in _candidates(path)}
    found, unreadable = _read_all(files)
    weighed = {name: weigh(found[name], traces, paired=_saved_together(path, files[name])) for name in found}
    best = max(weighed.values(), default=Evidence.REFUTED)
    if unreadable and best != Evidence.PROVED:
        raise next(iter(unreadable.values()))
    winners = [name for name, evidence in weighed.items() if evidence == best]
    if best == Evidence.REFUTED:
        return _none_fits(model, found, traces, under=under)
    if any(not same(found[name], found[winners[0]]) for name in winners):
        raise NormalizerError(
            f"several files of statistics fit {model.name} equally well",
            expected="one that can be told from the others",
            found=listed(winners),
            fix=_FIX,
        )
    if best == Evidence.UNPROVED:
        raise NormalizerError(
            f"{winners[0]} lies beside {model.name}, and nothing proves that they belong together",
            expected="statistics that turn the last raw observation into the one that the policy saw",
            found="statistics that do not, or nothing in the zip to check them against",
            fix=_FIX,
        )
    passed_over = (f"passed over {name}: {error.subject}" for name, error in unreadable.items())
    told = _told(found[winners[0]], traces, best)
    notes = (f"{' = '.join(winners)} found beside the zip; {told}", *passed_over)
    return Choice(found[winners[0]], notes, best is Evidence.PROVED)


def _read_all(files: Mapping[str, Path]) -> tuple[dict[str, Statistics], dict[str, RlpipeError]]:
    """The statistics in files, and what is wrong with those that cannot be read."""
    found: dict[str, Statistics] = {}
    unreadable: dict[str, RlpipeError] = {}
    for name, file in files.items():
        try:
            found[name] = read_statistics(file)
        except (NormalizerError, UnsafePayloadError) as error:
            unreadable[name] = error
    return found, unreadable


def _none_fits(model: SavedModel, found: Mapping[str, Statistics], traces: Traces, *, under: bool) -> Choice:
    same_shape = any(each.mean is None or each.mean.shape == traces.shape for each in found.values())
    if not under and not same_shape:
        passed_over = (
            f"passed over {name}: it is for observations of shape {each.shape}, the policy takes {traces.shape}"
            for name, each in found.items()
        )
        return Choice(None, (*passed_over, f"nothing in the zip says whether VecNormalize was used; {_FIX}"))
    raise NormalizerError(
        f"{model.name} was trained under VecNormalize, and its statistics were not found"
        if under
        else f"statistics lie beside {model.name}, and none of them is what it was trained with",
        expected="the file that VecNormalize.save() wrote together with the model, beside it",
        found=f"files that do not fit: {listed(found)}" if found else "no VecNormalize file beside it",
        fix=_FIX,
    )


def _candidates(path: Path) -> list[Path]:
    """Pickles of a VecNormalize beside the zip and in the folder of its name, whatever they are called."""
    folders = [path.absolute().parent, path.absolute().with_suffix("")]
    files = sorted(file for folder in folders if folder.is_dir() for file in folder.iterdir() if file.is_file())
    return [file for file in files if file.name != path.name and _is_vec_normalize(file)]


def _is_vec_normalize(path: Path) -> bool:
    """Whether a file begins as a pickle of such an object; replay buffers of gigabytes often lie beside it."""
    if path.stat().st_size > _MOST_BYTES:
        return False
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    return b"VecNormalize" in head and (head[:1] == b"\x80" or head[:1] in b"(c")


def _saved_together(zip_path: Path, file: Path) -> bool:
    """Whether the names are those that CheckpointCallback gives a model and its statistics."""
    match = _CHECKPOINT.fullmatch(zip_path.stem)
    return match is not None and file.stem == f"{match[1]}_vecnormalize_{match[2]}_steps"
