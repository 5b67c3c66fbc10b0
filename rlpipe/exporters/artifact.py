"""Open an artifact and act with it: numpy in, numpy out, every input checked. No torch before a target needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpipe.errors import ArtifactError, ObservationError, UnsafePayloadError, closest, listed
from rlpipe.exporters.capture import captured
from rlpipe.exporters.folder import sha256
from rlpipe.exporters.record import RECORD_NAME, peek, read_record, targets_of
from rlpipe.exporters.signature import ACTION, NOISE, Array, Signature, observation_arrays
from rlpipe.exporters.target import Arrays, acts, resolve
from rlpipe.exporters.target import Step as Loaded
from rlpipe.policies.aside import Aside
from rlpipe.policies.interface import Port
from rlpipe.policies.observations import Observations
from rlpipe.policies.step import Step, forgetful
from rlpipe.snapshot.spaces import Space, from_json, nested_batch
from rlpipe.snapshot.spec import Json


@dataclass(frozen=True, eq=False)
class Artifact:
    """An opened artifact.

    Attributes:
        target: Its target's id.
        file: The file that runs.
        record: What `artifact.json` says.
        signature: Its inputs and outputs.
        observation_space: The environment's.
        action_space: The environment's.
    """

    target: str
    file: Path
    record: Mapping[str, Json]
    signature: Signature
    observation_space: Space
    action_space: Space
    _step: Loaded

    @property
    def gives_env_actions(self) -> bool:
        """Whether it gives what an environment takes, and not raw actions, those of an actuator, or features."""
        return bool(self.signature.of_kind("action")) and self.record.get("action", "env") == "env"

    def compute_actions(self, observations: Any) -> Any:
        """Actions ready for the environment.

        Args:
            observations: A batch as the observation space has it: an array (n, *shape), or a dict or tuple of them.
                Nothing is cast.

        Returns:
            A batch of actions: an array (n, *shape), or a dict or tuple of them.

        Raises:
            ObservationError: Keys, dtype, rank, shape or batch sizes are others.
            ArtifactError: The artifact answers with something else than it promises, remembers, or gives no actions.
        """
        if self.signature.memory:
            raise forgetful(self.file.name, "artifact", ArtifactError)
        return self.step(observations).actions

    def step(
        self,
        observations: Any,
        state: Mapping[str, Array] | None = None,
        *,
        episode_start: Any = None,
        action_mask: Any = None,
        noise: Array | None = None,
    ) -> Step:
        """Actions ready for the environment, and what is remembered for the next step; see `Policy.step`.

        Args:
            observations: See `compute_actions`.
            state: What the last step gave, (n, ...) each; None at the start of episodes.
            episode_start: (n,) bool, the rows that begin an episode: their state is put back, whatever it holds.
            action_mask: (n, k) bool, which choices are allowed; None allows all.
            noise: (n, k) float32, what actions are drawn with; only for an artifact of mode=stochastic.

        Raises:
            ObservationError: See `compute_actions`; or another state, mask or noise.
            ArtifactError: The artifact answers with something else than it promises, or gives no actions.
        """
        if not self.gives_env_actions:
            raise ArtifactError(
                f"{self.file.name} gives no actions that an environment takes",
                expected="an artifact of a whole policy with export.action=env",
                found=", ".join(spec.name for spec in self.signature.outputs),
                fix="artifact.run(arrays) gives what there is",
            )
        read = Observations(observation_arrays(self.signature, self.observation_space, observations), is_single=False)
        ports = [Port(name=spec.name, dtype=spec.dtype, shape=spec.shape) for spec in self.signature.inputs]
        aside = Aside(state=state, episode_start=episode_start, action_mask=action_mask).arrays(ports, read)
        found = self.run(self._ordered({**read.arrays, **aside, **self._noise(noise, read.arrays)}))
        actions = {spec.name: found[spec.name] for spec in self.signature.of_kind("action")}
        kept = {name: found[after] for name, after in self.signature.memory.items()}
        return Step(nested_batch(self.action_space, actions, ACTION), kept)

    def _ordered(self, arrays: Arrays) -> Arrays:
        return {spec.name: arrays[spec.name] for spec in self.signature.inputs}

    def _noise(self, given: Array | None, observations: Arrays) -> Arrays:
        """The noise, checked."""
        specs = self.signature.of_kind("noise")
        size = len(next(iter(observations.values())))
        expected = [(spec.dtype, (size, *spec.shape)) for spec in specs]
        found = [] if given is None else [(given.dtype.name, given.shape)]
        if found != expected:
            raise ObservationError(
                "the noise does not fit the artifact",
                expected=", ".join(f"{spec.describe()}, {spec.distribution}" for spec in specs) or "no noise",
                found=", ".join(map(str, found)) or "no noise",
                fix="draw it anew for every step" if specs else "leave it out",
            )
        return {NOISE: given} if given is not None else {}

    def run(self, arrays: Arrays) -> Arrays:
        """Flat named arrays to flat named arrays, as the file itself has them; the inputs are not checked.

        Raises:
            ArtifactError: The artifact answers with something else than it promises.
        """
        actions = self._step(arrays)
        size = len(next(iter(arrays.values())))
        expected = {spec.name: (spec.dtype, (size, *spec.shape)) for spec in self.signature.outputs}
        found = {name: (array.dtype.name, array.shape) for name, array in actions.items()}
        if found != expected:
            raise ArtifactError(f"{self.file.name} breaks its signature", expected=str(expected), found=str(found))
        return actions


def is_artifact(path: Path) -> bool:
    """Whether a path is an artifact folder, a target's folder in one, or the file in that; reads JSON only."""
    return _place(path) is not None


def artifact_folders(path: Path) -> Iterator[Path]:
    """Every artifact folder in a tree; hidden folders, and what is inside of one, are passed over."""
    for place, folders, files in os.walk(path):
        if RECORD_NAME in files and peek(Path(place) / RECORD_NAME) is not None:
            folders.clear()
            yield Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def open_artifact(path: Path, *, target: str | None = None, trust: tuple[str, ...] = ()) -> Artifact:
    """Open an artifact after a check of its hash.

    Args:
        path: An artifact folder, a target's folder in it, or the file in that.
        target: Which target to open; needed only for a folder that holds several.
        trust: Ids of targets whose files may run code when they are loaded, such as `torch_export`.

    Raises:
        ArtifactError: No artifact, an ambiguous or missing target, a file that is not the one it was, or a package that
            runs it is not installed.
        UnsafePayloadError: The file could run code and the target is not trusted.
    """
    place = _place(path)
    if place is None:
        raise ArtifactError(
            f"{path} is no artifact",
            expected=f"a folder with {RECORD_NAME}, a target's folder in it, or the file there",
            found="no such path" if not path.exists() else "something else",
        )
    folder, inside = place
    record = read_record(folder)
    chosen = _chosen(record, inside or target, folder)
    file = folder / chosen / resolve(chosen).FILE_NAME
    for entry in targets_of(record)[chosen]["files"]:
        _require_same(folder / entry["path"], str(entry["sha256"]))
    if not acts(chosen):
        raise ArtifactError(
            f"{file} holds weights and does not act",
            expected=f"one of {listed(name for name in targets_of(record) if acts(name))}",
            found=chosen,
            fix="name another target of the folder",
        )
    return artifact_of(chosen, file, record, trust=trust)


def artifact_of(
    target_id: str, file: Path, record: Mapping[str, Json], *, trust: tuple[str, ...] | None = None
) -> Artifact:
    """An artifact of a file without a look at its hash.

    Args:
        target_id: Its target.
        file: The file.
        record: What `artifact.json` says, or will say, about the policy.
        trust: Ids of targets whose files may run code when they are loaded; None: the file was made in this run.

    Raises:
        ArtifactError: A package that runs it is not installed.
        UnsafePayloadError: The file could run code and the target is not trusted.
    """
    return Artifact(
        target=target_id,
        file=file,
        record=record,
        signature=Signature.from_json(record["signature"]),
        observation_space=from_json(record["observation_space"], where="observation_space"),
        action_space=from_json(record["action_space"], where="action_space"),
        _step=_loaded(target_id, file, (target_id,) if trust is None else trust),
    )


def _place(path: Path) -> tuple[Path, str] | None:
    """The artifact folder of a path and the target that the path names, or "" if it names none."""
    if path.name == RECORD_NAME:
        path = path.parent
    for folder, inside in ((path, ""), (path.parent, path.name), (path.parent.parent, path.parent.name)):
        record = peek(folder / RECORD_NAME)
        if record is not None and (not inside or inside in targets_of(record)) and path.exists():
            return folder, inside
    return None


def _chosen(record: Mapping[str, Json], target: str | None, folder: Path) -> str:
    known = sorted(targets_of(record))
    if target in known:
        return str(target)
    if target is None and len(known) == 1:
        return known[0]
    near = closest(target or "", known)
    raise ArtifactError(
        f"{folder} holds no single artifact to open" if target is None else f"{folder} holds no artifact {target!r}",
        expected=f"one of {listed(known)}",
        found=repr(target) if target else "no choice",
        fix=f"open {folder / (near[0] if near else known[0])}" if known else "export it again",
    )


def _require_same(file: Path, expected: str) -> None:
    if not file.is_file():
        raise ArtifactError(f"{file} is missing", expected="the file that was exported", fix="copy the folder whole")
    if (found := sha256(file)) != expected:
        raise ArtifactError(
            f"{file} was changed or damaged",
            expected=f"SHA-256 {expected[:12]}...",
            found=f"{found[:12]}...",
            fix="take another copy of the folder, or export again",
        )


def _loaded(target_id: str, file: Path, trust: tuple[str, ...]) -> Loaded:
    target = resolve(target_id)
    if target.LOADING_RUNS_CODE and target_id not in trust:
        raise UnsafePayloadError(
            f"loading {file.name} could run code, so it was not loaded",
            expected="a file that was made in this run, or trust",
            found=f"an artifact of {target_id}",
            fix=f"if you know where it is from, allow it: 'trust=[{target_id}]'",
        )
    with captured():
        try:
            return target.load(str(file))
        except ImportError as error:
            raise ArtifactError(
                f"{file.name} cannot run here",
                expected=f"the package {error.name}",
                found="it is not installed",
                fix=f"pip install {error.name}",
            ) from error
