"""The parts of a policy put together: spec, state, roles and metadata, the same for both stacks of RLlib."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpipe.errors import listed
from rlpipe.importers.importer import ImportedFile, ImportReport
from rlpipe.importers.libraries.rllib.acting import Bounds, action_stages
from rlpipe.importers.libraries.rllib.files import sha256_of
from rlpipe.importers.libraries.rllib.networks import Network, broken_keys
from rlpipe.importers.libraries.rllib.observing import Observing
from rlpipe.importers.libraries.rllib.weights import Tensors
from rlpipe.policies.stages import prepared_space, stages_to_json
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import Space, to_json
from rlpipe.snapshot.spec import Json, Spec
from rlpipe.snapshot.state import from_entries

LIBRARY = "rllib"
_POLICY = "rlpipe.policies.policy.Policy"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Origin:
    """Where a policy comes from.

    Attributes:
        folder: Its directory.
        state: The file of its weights.
        algorithm: Name of the class of its module or policy in RLlib.
        version: Of ray, or "unknown".
        steps: Steps of environments that it was trained for, or None if that is not known.
        env: The gymnasium id of what it was trained in, or None if that is not known.
    """

    folder: Path
    state: Path
    algorithm: str
    version: str
    steps: int | None
    env: str | None = None

    def metadata(self) -> dict[str, Json]:
        """Plain facts, without paths."""
        source: dict[str, Any] = {
            "library": LIBRARY,
            "version": self.version,
            "algorithm": self.algorithm,
            "file": self.folder.resolve().name,
            "sha256": sha256_of(self.state),
        }
        env = {} if self.env is None else {"env": self.env}
        if self.steps is None:
            return {"source": source, **env}
        return {"trained": self.steps > 0, "source": {**source, "timesteps": self.steps}, **env}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Parts:
    """What a policy is made of.

    Attributes:
        origin: Where it comes from.
        observing: How it sees.
        action_space: What the environment takes, as RLlib acts in it.
        bounds: How actions are brought to the bounds of a Box.
        network: Its module, with the weights.
        tensors: The weights as they were named, all taken or skipped.
        notes: What else people should know.
        skipped: (name, why) of what was left out beside weights.
    """

    origin: Origin
    observing: Observing
    action_space: Space
    bounds: Bounds
    network: Network
    tensors: Tensors
    notes: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    def imported(self) -> ImportedFile:
        """The policy as a snapshot, with the report."""
        self.tensors.require_empty()
        return ImportedFile(self._snapshot(), self._report())

    def _snapshot(self) -> Snapshot:
        statistics = self.observing.statistics
        entries = self.network.entries | (statistics.entries() if statistics is not None else {})
        options = {
            "inference_only": self.network.inference_only,
            "learner_only": False,
            "non_inference_attributes": None,
        }
        return Snapshot(
            spec=Spec(_POLICY, self._config(), options),
            state=from_entries(entries),
            roles={key: "training" if key.startswith(self.network.training) else "inference" for key in entries},
            metadata=self.origin.metadata(),
        )

    def _config(self) -> dict[str, Json]:
        space, observing = to_json(self.action_space), self.observing
        return {
            "module": {
                "class": self.network.module,
                "observation_space": to_json(prepared_space(observing.space, observing.stages)),
                "action_space": space,
                "model_config": dict(self.network.model_config),
                **({"state": dict(self.network.memory)} if self.network.memory else {}),
            },
            "observation_space": to_json(observing.space),
            "action_space": space,
            "observation": stages_to_json(observing.stages),
            "action": stages_to_json(action_stages(self.action_space, self.network.output, self.bounds)),
        }

    def _report(self) -> ImportReport:
        statistics = self.observing.statistics
        imported = (*sorted(self.tensors.taken), *(("MeanStdFilter",) if statistics is not None else ()))
        notes = [*self.observing.notes, *self.notes]
        if broken := broken_keys(self.network.entries):
            notes.append(f"weights that are not finite: {listed(broken)}")
        if statistics is not None and statistics.count < 2:
            notes.append(f"the statistics of observations saw {statistics.count} observations only")
        if self.network.output == "squashed" and self.bounds != "squash":
            notes.append(
                "acts with the mean itself, cut at the bounds, as RLlib does where it does not explore: no tanh"
            )
        skipped = (*sorted(self.tensors.skipped.items()), *self.skipped)
        return ImportReport(imported=imported, skipped=skipped, notes=tuple(notes))
