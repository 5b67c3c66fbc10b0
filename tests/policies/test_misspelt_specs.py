"""A name with a typo, anywhere in the JSON of a spec, is refused with the name that was meant."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest

from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.errors import RlpipeError
from rlpipe.modules.fields import read_fields
from rlpipe.modules.torch.dqn import DQNModule
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.modules.torch.sac import SACModule
from rlpipe.modules.torch.torch_module import TorchModule
from rlpipe.policies import stages
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot import spaces
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

FREE = frozenset({"kwargs", "spaces", "encoders", "stages", "state", "optimizer_kwargs", "scheduler_kwargs", "groups"})
"""Names of mappings whose own names are the user's."""

BOX = Box.uniform(-1, 1, (3,))
IMAGE = Box.uniform(0, 255, (40, 40, 3), np.dtype(np.uint8))
PARTS = Dict({"image": IMAGE, "speed": BOX})
MULTI = {"type": "multi", "encoders": {"speed": {"type": "mlp"}}, "after": {"type": "mlp"}}


def policy(kind: Any, observation: Any = BOX, action: Any = BOX, **config: Any) -> Any:
    return PolicySpec.default(kind, observation, action, model_config=config, trust=("torch.*",))


POLICIES = {
    "ppo": partial(policy, PPOModule),
    "ppo shared": partial(
        policy, PPOModule, IMAGE, Discrete(3), shared={"type": "cnn", "filters": [[4, 8, 4]], "hidden": [8]}
    ),
    "ppo lstm": partial(
        policy, PPOModule, action=MultiDiscrete(np.array([2, 3])), actor={"type": "lstm"}, critic={"type": "gru"}
    ),
    "ppo parts": partial(policy, PPOModule, PARTS, Dict({"a": BOX, "b": Discrete(2)}), shared=MULTI),
    "sac": partial(policy, SACModule),
    "dqn": partial(policy, DQNModule, action=Discrete(2)),
    "torch": partial(policy, TorchModule, action=BOX, **{"class": "torch.nn.Identity", "output": "mean"}),
}
STAGES = {
    "observation": [
        stages.Cast("float32"),
        stages.Normalize("var_eps", 1e-8, 10.0),
        stages.Scale(255.0),
        stages.FrameStack(2),
        stages.OneHot((3,), (0,)),
    ],
    "action": [stages.Clip(-1.0, 1.0), stages.Affine(2.0, 1.0), stages.Unscale(-1.0, 1.0), stages.Threshold(0.5)],
}
SPACES = [
    BOX,
    Discrete(2),
    MultiBinary((2,)),
    MultiDiscrete(np.array([2, 3])),
    PARTS,
    Tuple((BOX, Discrete(2))),
    Text(1, 2, "ab"),
]
TRAINING = TrainingSpec(loss="a.b")


def read_policy(value: Any) -> Any:
    return PolicySpec.from_json(value["config"], value["options"]).build(trust=("torch.*",))


def read_training(value: Any) -> Any:
    return TrainingSpec.from_json(value["config"], value["options"])


Form = tuple[Any, Callable[[Any], Any]]


def of_policy(config: Callable[[], PolicySpec]) -> Form:
    spec = config()
    return {"config": spec.to_json(), "options": spec.options()}, read_policy


def of_stage(stage: stages.Stage, side: str) -> Form:
    return [stage.to_json()], lambda value: stages.stages_from_json(value, side=side)


def of_runner() -> Form:
    runner = RunnerSpec(env="CartPole-v1")
    plain = {field.name: getattr(runner, field.name) for field in fields(runner)}
    return plain, lambda value: read_fields(RunnerSpec, value, where="runner")


FORMS: dict[str, Callable[[], Form]] = {
    **{f"policy {name}": partial(of_policy, config) for name, config in POLICIES.items()},
    **{f"stage {stage.type}": partial(of_stage, stage, side) for side, chain in STAGES.items() for stage in chain},
    **{space.describe(): partial(lambda space: (spaces.to_json(space), spaces.from_json), space) for space in SPACES},
    "training": lambda: ({"config": TRAINING.to_json(), "options": TRAINING.options()}, read_training),
    "runner": of_runner,
}


def named(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every name that is not the user's own."""
    if isinstance(value, Mapping):
        is_free = bool(path) and path[-1] in FREE
        for name, inner in value.items():
            if not is_free and path:
                yield (*path, name)
            elif not path and name not in ("config", "options"):
                yield (name,)
            yield from named(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from named(inner, (*path, index))


def misspelt(value: Any, path: tuple[Any, ...]) -> Any:
    """The same with two letters of one name the other way round, or one too many."""
    made = copy.deepcopy(value)
    node = made
    for step in path[:-1]:
        node = node[step]
    name = path[-1]
    node[name[:-2] + name[-1] + name[-2] if len(name) > 3 and name[-1] != name[-2] else f"{name}x"] = node.pop(name)
    return made


@pytest.mark.parametrize("form", FORMS)
def test_a_misspelt_name_is_refused_with_the_one_that_was_meant(form: str) -> None:
    value, read = FORMS[form]()
    assert read(value) is not None
    for path in named(value):
        with pytest.raises(RlpipeError) as caught:
            read(misspelt(value, path))
        assert path[-1] in str(caught.value), path
