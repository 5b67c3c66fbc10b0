"""The keys of a run's config and their types; what they mean is said beside their values in ``conf/``.

Hydra is given the keys without the types: it would turn ``[1e3]`` into ``["1000.0"]``, let ``[[p1]]`` through, refuse
policies that the command adds, and tell none of it well. ``rlpipe.config.shape`` checks keys and types;
``rlpipe.config.validation`` checks what is declared ``Any``: lists, names among several, and what is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

SCHEMA_NAME = "rlpipe_schema"
EXPORT_KEYS = ("action", "component", "jobs", "mode", "outputs", "require")
"""Keys of `export` that are no targets."""


@dataclass
class TaskConfig:
    """What to do."""

    name: Any = ""
    steps: Any = None


@dataclass
class ModuleConfig:
    """A module; in a policy, a key left null falls back to the same key of the root's ``module``."""

    class_path: str | None = None
    inference_only: bool | None = None
    learner_only: bool | None = None
    non_inference_attributes: Any = None
    env: str | None = None
    action_mask: Any = None
    model_config: Any = None


@dataclass
class PolicyConfig:
    """One policy of the algorithm."""

    module: ModuleConfig = field(default_factory=ModuleConfig)
    env: str | None = None
    observation_space: Any = None
    action_space: Any = None


@dataclass
class LearnerConfig:
    """What trains the policies; `optimizer` and `scheduler` have `class` and `kwargs`."""

    loss: Any = None
    optimizer: Any = None
    scheduler: Any = None


@dataclass
class EnvRunnerConfig:
    """What lets the policies act."""

    env: str | None = None
    num_envs: int = 1


@dataclass
class EvaluationRunnerConfig:
    """What lets the policies act in evaluation."""

    env: str | None = None


@dataclass
class AlgorithmConfig:
    """The policies that are built where no source gives them, and what is built beside them."""

    policies: dict[str, PolicyConfig] = field(default_factory=dict)
    seed: int = 0
    policy_mapping_fn: Any = None
    policies_to_train: Any = None
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    env_runner: EnvRunnerConfig = field(default_factory=EnvRunnerConfig)
    num_env_runners: int = 1
    evaluation_runner: EvaluationRunnerConfig = field(default_factory=EvaluationRunnerConfig)


@dataclass
class CheckpointConfig:
    """Where and how a checkpoint is written."""

    backend: Any = ""
    path: str | None = None
    if_exists: Any = "error"
    durability: Any = "fsync"
    step: int | None = None
    score: float | None = None
    keep_last: int | None = None
    keep_every: int | None = None
    keep_best: int = 1
    goal: Any = "max"
    native_models: Any = None


@dataclass
class SourceConfig:
    """Where policies come from."""

    kind: Any = ""
    path: str | None = None
    which: Any = None
    goal: Any = "max"
    normalizer: str = "auto"
    policy_id: str | None = None
    filter_agent: dict[str, Any] = field(default_factory=dict)
    params: Any = None
    activation: Any = None
    clip_actions: Any = None
    observation_names: Any = None
    joint_names: Any = None
    action_scale: Any = None
    action_offset: Any = None
    policies: dict[str, Any] = field(default_factory=dict)
    learner: Any = "leave"


@dataclass
class BaseConfig:
    """The second input."""

    path: str | None = None
    on_mismatch: Any = "error"


@dataclass
class SelectConfig:
    """What is taken of each policy."""

    roles: Any = None
    keys: Any = None
    ties: Any = "keep"


@dataclass
class RestoreConfig:
    """Where policies are restored to."""

    device: Any = "cpu"
    on_shape: Any = "error"


@dataclass
class ArtifactConfig:
    """Where artifacts are written, and what is said about them."""

    path: str | None = None
    if_exists: Any = "error"
    names: Any = None
    metadata: Any = None


@dataclass
class VerifyConfig:
    """What is checked against, and where the findings go too."""

    junit: str | None = None
    sha256: Any = None


@dataclass
class EvaluateConfig:
    """How a policy is rolled out."""

    episodes: int = 10
    seed: int = 0
    max_steps: int | None = None


@dataclass
class RootConfig:
    """The whole config. ``export`` maps the id of a target to its options, beside the keys of ``EXPORT_KEYS``."""

    task: TaskConfig = field(default_factory=TaskConfig)
    policy_ids: Any = None
    select: SelectConfig = field(default_factory=SelectConfig)
    rename: Any = None
    source: SourceConfig = field(default_factory=SourceConfig)
    base: BaseConfig = field(default_factory=BaseConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    restore: RestoreConfig = field(default_factory=RestoreConfig)
    artifact: ArtifactConfig = field(default_factory=ArtifactConfig)
    export: dict[str, Any] = field(default_factory=dict)
    verify: VerifyConfig = field(default_factory=VerifyConfig)
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
    module: ModuleConfig = field(default_factory=ModuleConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    env: str | None = None
    trust: Any = None
    checkpoints_dir: str = "outputs/checkpoints"


def register() -> None:
    """Make the schema known to Hydra under the name that ``conf/config.yaml`` starts with."""
    ConfigStore.instance().store(name=SCHEMA_NAME, node=OmegaConf.to_container(OmegaConf.structured(RootConfig)))
