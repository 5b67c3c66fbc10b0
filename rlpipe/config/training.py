"""What is built beside the configured policies: what trains them, and what lets them act."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.config.findings import Findings
from rlpipe.config.values import described, integer, text, text_list
from rlpipe.errors import listed

Node = Mapping[str, Any]
_ADAM = "torch.optim.Adam"
_CALLED = ("class", "kwargs")


def read_learner(node: Node, findings: Findings) -> TrainingSpec | None:
    """How policies are trained; None without a loss."""
    key = "algorithm.learner"
    loss = _path(f"{key}.loss", node["loss"], findings)
    optimizer, kwargs, groups = _optimizer(f"{key}.optimizer", node["optimizer"], findings)
    scheduler, steps = _called(f"{key}.scheduler", node["scheduler"], findings)
    if steps and scheduler is None:
        fix = f"name it: {key}.scheduler.class=torch.optim.lr_scheduler.StepLR"
        findings.add(f"{key}.scheduler.class", expected="the path of a class for these kwargs", found="null", fix=fix)
    if loss is not None:
        kinds = {"optimizer": optimizer or _ADAM, "scheduler": scheduler}
        return TrainingSpec(loss=loss, optimizer_kwargs=kwargs, groups=groups, scheduler_kwargs=steps, **kinds)  # type: ignore[arg-type]
    if node["loss"] is None and (optimizer not in (None, _ADAM) or kwargs or groups or scheduler or steps):
        fix = f"name yours: {key}.loss=my_package.losses.my_loss"
        findings.add(f"{key}.loss", expected="the path of a function loss(module, batch)", found="null", fix=fix)
    return None


def read_runner(node: Node, seed: int, findings: Findings) -> RunnerSpec | None:
    """What lets policies act; None without an environment."""
    env = text("algorithm.env_runner.env", node["env"], findings)
    count = integer("algorithm.env_runner.num_envs", node["num_envs"], findings, least=1)
    if env is not None:
        return RunnerSpec(env=env, num_envs=count, seed=seed)
    if count != 1:
        fix = "name one: algorithm.env_runner.env=CartPole-v1"
        findings.add("algorithm.env_runner.env", expected=f"what the {count} are", found="null", fix=fix)
    return None


def read_count(value: Any, findings: Findings, *, has_runner: bool) -> int:
    """How many runners there are."""
    count = integer("algorithm.num_env_runners", value, findings, least=1)
    if count != 1 and not has_runner:
        fix = "name one: algorithm.env_runner.env=CartPole-v1"
        findings.add("algorithm.env_runner.env", expected=f"what the {count} runners step", found="null", fix=fix)
    return count


def read_evaluation(node: Node, seed: int, findings: Findings) -> RunnerSpec | None:
    """What lets policies act in evaluation; None without an environment."""
    env = text("algorithm.evaluation_runner.env", node["env"], findings)
    return None if env is None else RunnerSpec(env=env, seed=seed)


def read_mapping(value: Any, ids: Mapping[str, Any], findings: Findings) -> Mapping[str, str] | str | None:
    """Which policy acts for which agent: globs over agents -> ids, or the path of a function."""
    key = "algorithm.policy_mapping_fn"
    if value is None or isinstance(value, str):
        return _path(key, value, findings)
    if not isinstance(value, Mapping) or not value:
        fix = f"write '{key}={{agent_0: p0}}'"
        findings.add(key, expected="agents or globs -> policy ids, or a path", found=described(value), fix=fix)
        return None
    for agent, policy_id in value.items():
        if policy_id not in ids:
            expected, fix = f"one of {listed(ids)}", "name a policy of algorithm.policies"
            findings.add(f"{key}.{agent}", expected=expected, found=described(policy_id), fix=fix)
    return {str(agent): str(policy_id) for agent, policy_id in value.items()}


def read_policies_to_train(
    value: Any, ids: Mapping[str, Any], findings: Findings, *, is_trained: bool
) -> tuple[str, ...] | None:
    """Ids of the policies that the learner trains; None for all."""
    key = "algorithm.policies_to_train"
    found = text_list(key, value, findings, of="policy ids")
    for policy_id in found or ():
        if policy_id not in ids:
            expected, fix = f"some of {listed(ids)}", "name policies of algorithm.policies"
            findings.add(key, expected=expected, found=policy_id, fix=fix)
    if found and not is_trained:
        fix = "name what trains them: algorithm.learner.loss=my_package.losses.my_loss"
        findings.add(key, expected="a learner that trains them", found="algorithm.learner.loss=null", fix=fix)
    return found


def named_paths(algorithm: Node) -> Iterator[str]:
    """The paths of functions and classes that the config names beside those of modules."""
    learner = _mapping(algorithm.get("learner"))
    named = [learner.get("loss"), algorithm.get("policy_mapping_fn")]
    named += [_mapping(learner.get(name)).get("class") for name in ("optimizer", "scheduler")]
    return (path for path in named if isinstance(path, str) and is_dotted(path))


def is_dotted(path: str) -> bool:
    """Whether a text may be a dotted path."""
    return "." in path and all(name.isidentifier() for name in path.split("."))


def _optimizer(key: str, value: Any, findings: Findings) -> tuple[str | None, dict[str, Any], dict[str, Any]]:
    """A class, its keyword arguments, and those for some parameters."""
    groups: Any = None
    if isinstance(value, Mapping):
        groups, value = value.get("groups"), {name: value[name] for name in value if name != "groups"}
    found = {} if groups is None else groups
    if not isinstance(found, Mapping) or not all(isinstance(each, Mapping) for each in found.values()):
        fix = f"write '{key}.groups={{encoder/*: {{lr: 1e-4}}}}'"
        findings.add(f"{key}.groups", expected="globs over keys -> settings", found=described(groups), fix=fix)
        found = {}
    return *_called(key, value, findings), {str(pattern): dict(each) for pattern, each in found.items()}


def _called(key: str, value: Any, findings: Findings) -> tuple[str | None, dict[str, Any]]:
    """A class and its keyword arguments."""
    node = {} if value is None else value
    if not isinstance(node, Mapping) or node.keys() - set(_CALLED):
        fix = f"write {key}.class=... {key}.kwargs.NAME=..."
        findings.add(key, expected="class and kwargs", found=described(value), fix=fix)
        return None, {}
    kwargs = {} if node.get("kwargs") is None else node["kwargs"]
    if not isinstance(kwargs, Mapping):
        fix = f"write {key}.kwargs.NAME=..."
        findings.add(f"{key}.kwargs", expected="a mapping", found=described(kwargs), fix=fix)
        kwargs = {}
    return _path(f"{key}.class", node.get("class"), findings), dict(kwargs)


def _path(key: str, value: Any, findings: Findings) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and is_dotted(value):
        return value
    expected, fix = "a dotted path", f"write {key}=my_package.my_module.name"
    findings.add(key, expected=expected, found=described(value), fix=fix)
    return None


def _mapping(value: Any) -> Node:
    return value if isinstance(value, Mapping) else {}
