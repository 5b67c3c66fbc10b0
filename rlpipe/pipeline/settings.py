"""What one run is told: frozen plain values, made by ``rlpipe.config`` or by hand, read by every task.

No hydra and no torch here. ``None`` always means "left at its default"; what the default is belongs to the task:

- ``source.path=None``: ``task=save`` builds the configured policies; a task that reads takes the newest complete
  checkpoint under ``checkpoints_dir`` and, if there is none, the packaged sample. ``"latest"`` insists on a checkpoint.
- ``checkpoint.path=None``: a new folder under ``checkpoints_dir``. In tasks that only read, ``checkpoint.path`` is
  short for ``source.path``; the pipeline resolves that and refuses both at once.
- ``select.policy_ids=None`` / ``roles=None`` / ``keys=None``: everything.

Usage::

    settings = RunSettings(
        task="export",
        source=SourceSettings(path="model.zip"),
        select=SelectSettings(policy_ids=("p0",)),
        export=ExportSettings(targets={"onnx": onnx.Options()}),
        out_dir="outputs/run",
    )
    report = run(settings)            # rlpipe.pipeline.runner; writes <out_dir>/result.json
    report.ok, report.exit_code, report.to_json()

``runner.task_names()`` lists the tasks, and every ``rlpipe.pipeline.tasks.<name>`` has ``USES``, the dotted config keys
that it reads (``"select.policy_ids"``, ``"source"`` for the whole node), so that others can be warned about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.checkpoint.choose import Goal
from rlpipe.checkpoint.retention import Retention
from rlpipe.exporters.labels import Labels
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.snapshot.reshape import OnShape

if TYPE_CHECKING:
    from rlpipe.snapshot.spaces import Space

LATEST = "latest"
BEST = "best"
SHOW = "show"
AUTO = "auto"
ASSEMBLE = "assemble"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where policies come from.

    Attributes:
        kind: ``"auto"`` recognises by content; an importer id (``"stable_baselines3"``) insists on that importer.
        path: A checkpoint, component directory, foreign file, artifact folder, ``"latest"``, or None (see above).
        normalizer: ``"auto"``, ``"none"`` or the path of a statistics file, for importers that know one.
        which: Of a folder of checkpoints, at ``path`` or else ``checkpoints_dir``: ``"latest"``, ``"best"`` or a step.
        goal: Whether the largest or the smallest score is the best.
        policy_id: Name for a policy that comes alone; None: the directory's name, or ``p0`` for a foreign file.
        hints: Further options of an importer that were given: what a foreign file cannot tell, such as ``activation``.
        policies: New policy id -> path of one policy, for ``"assemble"``.
        learner: Whether ``"assemble"`` takes along what trains the policies.
    """

    kind: str = AUTO
    path: str | None = None
    which: Literal["latest", "best"] | int | None = None
    goal: Goal = "max"
    normalizer: str = AUTO
    policy_id: str | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)
    learner: Literal["leave", "copy"] = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseSettings:
    """The second input, of ``subset_restore`` and ``diff``; ``path=None``: freshly built policies."""

    path: str | None = None
    on_mismatch: Literal["error", "replace"] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """Where and how a checkpoint is written.

    Attributes:
        backend: The name of a file of ``rlpipe.backends``.
        path: Where (see above).
        if_exists: "replace" lets it take the place of an older checkpoint.
        durability: "fsync": it is on the disk when the task ends. "none": safe against killed processes only.
        step: Where in a training it was made; recorded in it.
        score: How good it is; recorded in it.
        retention: Which older checkpoints beside it go once it is there.
        native_models: Targets; artifacts of each policy go along, below ``policies/<id>/model/``.
    """

    backend: str = "hdf5"
    path: str | None = None
    if_exists: Literal["error", "replace"] = "error"
    durability: Literal["fsync", "none"] = "fsync"
    step: int | None = None
    score: float | None = None
    retention: Retention = field(default_factory=Retention)
    native_models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectSettings:
    """What is taken of the source. Ids and keys are exact names or globs; each has to match something.

    ``ties="untie"`` allows to take only some names of an array that has several.
    """

    policy_ids: tuple[str, ...] | None = None
    roles: tuple[Literal["inference", "training"], ...] | None = None
    keys: tuple[str, ...] | None = None
    ties: Literal["keep", "untie"] = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSettings:
    """How policies are restored.

    Attributes:
        device: ``cpu``, ``meta`` (keys and shapes only), ``cuda``, ``cuda:1``.
        on_shape: What ``subset_restore`` does with an array that has another shape in the base: refuse it, leave the
            base's, or copy as much of it as both have.
    """

    device: str = "cpu"
    on_shape: OnShape = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """How policies are exported.

    Attributes:
        targets: Target id -> the ``Options`` object of ``rlpipe.exporters.targets.<id>``.
        jobs: How many exports run at a time.
        require: Targets that decide the exit code; None: all of them.
        graph: What of each policy is exported.
    """

    targets: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 1
    require: tuple[str, ...] | None = None
    graph: GraphOptions = field(default_factory=GraphOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings:
    """What is checked against, and where the checks go.

    Attributes:
        junit: Where they are written as JUnit XML, for nightly jobs; None: nowhere.
        sha256: A value from elsewhere that the source has to have; ``"show"`` tells the one it has.
    """

    junit: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateSettings:
    """Episode ``i`` starts from ``env.reset(seed=seed + i)``; ``max_steps`` ends an episode early (None: never)."""

    episodes: int = 10
    seed: int = 0
    max_steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSettings:
    """The effective module of one policy: overrides already merged; ``class_path`` is a dotted path or a MOVED name."""

    class_path: str
    model_config: Mapping[str, Any] = field(default_factory=dict)
    inference_only: bool = False
    learner_only: bool = False
    non_inference_attributes: tuple[str, ...] | None = None
    action_mask: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """One policy to build.

    Attributes:
        env: Its own gymnasium id, already resolved (its own, the run's, its module's default), or None.
        observation_space: None: taken from ``env``.
        action_space: None: taken from ``env``.
    """

    module: ModuleSettings
    env: str | None = None
    observation_space: Space | None = None
    action_space: Space | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmSettings:
    """The policies that ``task=save`` without a source, and a base left None, build, and what is built beside them.

    Attributes:
        policies: Id -> policy.
        seed: Fixes their weights, and where chance in training and acting starts from.
        policy_mapping_fn: Agent or glob -> policy id, or the path of a function; None leaves it open.
        policies_to_train: Ids of those that the learner trains; None for all.
        learner: How they are trained; None without a learner.
        env_runner: What lets them act; None without a runner.
        num_env_runners: How many of it.
        evaluation_runner: What lets them act in evaluation; None without one of its own.
    """

    policies: Mapping[str, PolicySettings] = field(default_factory=dict)
    seed: int = 0
    policy_mapping_fn: Mapping[str, str] | str | None = None
    policies_to_train: tuple[str, ...] | None = None
    learner: TrainingSpec | None = None
    env_runner: RunnerSpec | None = None
    num_env_runners: int = 1
    evaluation_runner: RunnerSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceSettings:
    """Recorded in what the run writes: the overrides as typed and the resolved config as plain JSON."""

    overrides: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """One run. ``out_dir`` gets ``result.json`` and, unless ``artifact_path`` is given, the artifacts.

    Attributes:
        task: Name of a file of ``rlpipe.pipeline.tasks``.
        steps: The steps of ``task=pipeline``, in order.
        rename: Policy id of the source -> id in the result.
        trust: Patterns of dotted class paths that may be imported beside ``rlpipe.*``.
        env: A gymnasium id (``"CartPole-v1"``), or None: what the policy was trained in, where that is recorded.
        artifact_if_exists: "replace" lets an artifact take the place of one of another policy.
        labels: What is said about artifacts: names of elements, facts for whoever deploys them.
        checkpoints_dir: Where new checkpoints go and ``latest`` is looked for.
    """

    task: str
    steps: tuple[str, ...] = ()
    source: SourceSettings = SourceSettings()
    base: BaseSettings = BaseSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    select: SelectSettings = SelectSettings()
    rename: Mapping[str, str] = field(default_factory=dict)
    restore: RestoreSettings = RestoreSettings()
    export: ExportSettings = field(default_factory=ExportSettings)
    artifact_path: str | None = None
    artifact_if_exists: Literal["error", "replace"] = "error"
    labels: Labels = field(default_factory=Labels)
    verify: VerifySettings = VerifySettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    algorithm: AlgorithmSettings = field(default_factory=AlgorithmSettings)
    trust: tuple[str, ...] = ()
    env: str | None = None
    out_dir: str | None = None
    checkpoints_dir: str = "outputs/checkpoints"
    provenance: ProvenanceSettings = field(default_factory=ProvenanceSettings)
