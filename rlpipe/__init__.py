"""rlpipe: trained RL policies from any trainer to verified artifacts.

Every public name is resolved when it is first asked for, so that `import rlpipe` loads no torch, hydra, h5py or
gymnasium.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlpipe import errors
    from rlpipe.algorithms.algorithm import Algorithm
    from rlpipe.algorithms.learner import Learner
    from rlpipe.algorithms.runner import EnvRunner
    from rlpipe.algorithms.runner_spec import RunnerSpec
    from rlpipe.algorithms.training_spec import TrainingSpec
    from rlpipe.checkpoint.async_save import AsyncSaver
    from rlpipe.checkpoint.checkpointable import Checkpointable
    from rlpipe.checkpoint.choose import at_step, best, latest
    from rlpipe.checkpoint.preemption import Preemption
    from rlpipe.checkpoint.retention import Retention
    from rlpipe.checkpoint.series import Series
    from rlpipe.modules.inference_only_api import InferenceOnlyAPI
    from rlpipe.modules.multi_rl_module import MultiRLModule, MultiRLModuleSpec
    from rlpipe.modules.rl_module import RLModuleSpec
    from rlpipe.modules.torch.rl_module import RLModule
    from rlpipe.modules.torch.torch_module import TorchModule
    from rlpipe.pipeline.api import export, get_checkpoint_info, restore, save, verify
    from rlpipe.policies.policy import Policy
    from rlpipe.policies.policy_spec import PolicySpec
    from rlpipe.snapshot.ids import validate_policy_id
    from rlpipe.snapshot.selection import Selection
    from rlpipe.snapshot.snapshot import Snapshot
    from rlpipe.snapshot.spec import Spec

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "AsyncSaver",
    "Checkpointable",
    "EnvRunner",
    "InferenceOnlyAPI",
    "Learner",
    "MultiRLModule",
    "MultiRLModuleSpec",
    "Policy",
    "PolicySpec",
    "Preemption",
    "RLModule",
    "RLModuleSpec",
    "Retention",
    "RunnerSpec",
    "Selection",
    "Series",
    "Snapshot",
    "Spec",
    "TorchModule",
    "TrainingSpec",
    "__version__",
    "at_step",
    "best",
    "errors",
    "export",
    "get_checkpoint_info",
    "latest",
    "restore",
    "save",
    "validate_policy_id",
    "verify",
]

_HOME = MappingProxyType(
    {
        "Algorithm": "rlpipe.algorithms.algorithm",
        "AsyncSaver": "rlpipe.checkpoint.async_save",
        "Checkpointable": "rlpipe.checkpoint.checkpointable",
        "EnvRunner": "rlpipe.algorithms.runner",
        "InferenceOnlyAPI": "rlpipe.modules.inference_only_api",
        "Learner": "rlpipe.algorithms.learner",
        "MultiRLModule": "rlpipe.modules.multi_rl_module",
        "MultiRLModuleSpec": "rlpipe.modules.multi_rl_module",
        "Policy": "rlpipe.policies.policy",
        "PolicySpec": "rlpipe.policies.policy_spec",
        "Preemption": "rlpipe.checkpoint.preemption",
        "RLModule": "rlpipe.modules.torch.rl_module",
        "RLModuleSpec": "rlpipe.modules.rl_module",
        "Retention": "rlpipe.checkpoint.retention",
        "RunnerSpec": "rlpipe.algorithms.runner_spec",
        "Selection": "rlpipe.snapshot.selection",
        "Series": "rlpipe.checkpoint.series",
        "Snapshot": "rlpipe.snapshot.snapshot",
        "Spec": "rlpipe.snapshot.spec",
        "TorchModule": "rlpipe.modules.torch.torch_module",
        "TrainingSpec": "rlpipe.algorithms.training_spec",
        "at_step": "rlpipe.checkpoint.choose",
        "best": "rlpipe.checkpoint.choose",
        "export": "rlpipe.pipeline.api",
        "get_checkpoint_info": "rlpipe.pipeline.api",
        "latest": "rlpipe.checkpoint.choose",
        "restore": "rlpipe.pipeline.api",
        "save": "rlpipe.pipeline.api",
        "validate_policy_id": "rlpipe.snapshot.ids",
        "verify": "rlpipe.pipeline.api",
    }
)
"""Public name -> the module that defines it."""


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("rlpipe.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'rlpipe' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
