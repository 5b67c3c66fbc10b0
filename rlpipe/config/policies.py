"""The policies that a run would build: each key the nearest one that is not null."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpipe.config.findings import Findings
from rlpipe.config.training import (
    is_dotted,
    named_paths,
    read_count,
    read_evaluation,
    read_learner,
    read_mapping,
    read_policies_to_train,
    read_runner,
)
from rlpipe.config.values import checked_id, described, integer, text, text_list
from rlpipe.errors import RlpipeError
from rlpipe.pipeline.settings import AlgorithmSettings, ModuleSettings, PolicySettings
from rlpipe.snapshot import spaces
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.spaces import Space

Node = Mapping[str, Any]
_SPACES = ("observation_space", "action_space")


def read_algorithm(config: Node, findings: Findings) -> AlgorithmSettings:
    """The settings of `algorithm`, with `module` and `env` of the root as what policies fall back to."""
    checked_id("algorithm.policies", config["algorithm"]["policies"], findings, check=validate_ids)
    policies = {
        policy_id: _policy(f"algorithm.policies.{policy_id}", _mapping(policy), config, findings)
        for policy_id, policy in _mapping(config["algorithm"]["policies"]).items()
    }
    node = config["algorithm"]
    seed = integer("algorithm.seed", node["seed"], findings, least=0)
    learner = read_learner(node["learner"], findings)
    to_train = node["policies_to_train"]
    runner = read_runner(node["env_runner"], seed, findings)
    return AlgorithmSettings(
        policies=policies,
        seed=seed,
        policy_mapping_fn=read_mapping(node["policy_mapping_fn"], policies, findings),
        policies_to_train=read_policies_to_train(to_train, policies, findings, is_trained=learner is not None),
        learner=learner,
        env_runner=runner,
        num_env_runners=read_count(node["num_env_runners"], findings, has_runner=runner is not None),
        evaluation_runner=read_evaluation(node["evaluation_runner"], seed, findings),
    )


def configured_classes(config: Node) -> tuple[str, ...]:
    """Class paths that the config itself names: whoever wrote it vouches for them."""
    modules = [config["module"], *_own_modules(config)]
    own = (path for path in named_paths(config["algorithm"]) if not path.startswith(("rlpipe.", "torch.")))
    return tuple(sorted({*(path for module in modules for path in _class_paths(module)), *own}))


def falls_back(config: Node, key: str) -> bool:
    """Whether some policy takes the key from the root's `module`."""
    return any(module.get(key) is None for module in _own_modules(config))


def _policy(key: str, policy: Node, config: Node, findings: Findings) -> PolicySettings:
    own, shared = _own_module(policy), config["module"]
    spaces = {name: _space(f"{key}.{name}", policy.get(name), findings) for name in _SPACES}
    envs = (policy.get("env"), config["env"], own.get("env"), shared["env"])
    env = next((env for env in envs if env is not None), None)
    return PolicySettings(module=_module(f"{key}.module", own, shared, findings), env=env, **spaces)


def _module(key: str, own: Node, shared: Node, findings: Findings) -> ModuleSettings:
    effective = {name: shared[name] if own.get(name) is None else own[name] for name in shared}
    effective["model_config"] = _model_config(own, shared)
    class_path = text(f"{key}.class_path", effective["class_path"], findings)
    if class_path is None or not is_dotted(class_path):
        expected, found = "the dotted path of a module class", described(class_path)
        fix = "choose one (module=ppo), or name yours: module.class_path=my_package.networks.MyModule"
        findings.add(f"{key}.class_path", expected=expected, found=found, fix=fix)
    if effective["inference_only"] and effective["learner_only"]:
        fix = "leave one out"
        findings.add(key, expected="inference_only or learner_only, not both", found="both true", fix=fix)
    if not isinstance(effective["model_config"], Mapping):
        found, fix = described(effective["model_config"]), f"set the keys in it: {key}.model_config.KEY=..."
        findings.add(f"{key}.model_config", expected="a mapping", found=found, fix=fix)
    attributes = f"{key if own.get('non_inference_attributes') is not None else 'module'}.non_inference_attributes"
    return ModuleSettings(
        class_path=class_path or "",
        model_config=_mapping(effective["model_config"]),
        inference_only=bool(effective["inference_only"]),
        learner_only=bool(effective["learner_only"]),
        non_inference_attributes=_attributes(attributes, effective["non_inference_attributes"], findings),
        action_mask=_action_mask(f"{key}.action_mask", effective["action_mask"], findings),
    )


def _action_mask(key: str, value: Any, findings: Findings) -> str | None:
    """Where the mask is: "" for an input of its own, a key of the observation, None for no mask."""
    if value is None or isinstance(value, bool):
        return "" if value else None
    return text(key, value, findings)


def _attributes(key: str, value: Any, findings: Findings) -> tuple[str, ...] | None:
    """An empty list says that everything belongs to inference."""
    return () if value == [] else text_list(key, value, findings, of="attribute names")


def _model_config(own: Node, shared: Node) -> Any:
    """The policy's own over the shared one; only its own if it is of another class."""
    mine = own.get("model_config")
    if own.get("class_path") not in (None, shared["class_path"]):
        return {} if mine is None else mine
    return shared["model_config"] if mine is None else _over(shared["model_config"], mine)


def _over(base: Any, patch: Any) -> Any:
    """Mappings are merged, unless the patch says it is of another type; anything else is replaced."""
    if not isinstance(base, Mapping) or not isinstance(patch, Mapping):
        return patch
    if patch.get("type", base.get("type")) != base.get("type"):
        return patch
    return {**base, **{key: _over(base[key], value) if key in base else value for key, value in patch.items()}}


def _space(key: str, value: Any, findings: Findings) -> Space | None:
    if value is None:
        return None
    try:
        return spaces.from_json(value, where=key)
    except RlpipeError as error:
        findings.add_error(error, key=error.subject if error.subject.startswith(key) else key)
        return None


def _class_paths(module: Node) -> Iterator[str]:
    for path in (module.get("class_path"), _mapping(module.get("model_config")).get("class")):
        # A glob would vouch for classes that files name, too.
        if isinstance(path, str) and is_dotted(path) and not path.startswith("rlpipe."):
            yield path


def _own_modules(config: Node) -> list[Node]:
    return [_own_module(policy) for policy in _mapping(config["algorithm"]["policies"]).values()]


def _own_module(policy: Any) -> Node:
    return _mapping(_mapping(policy).get("module"))


def _mapping(value: Any) -> Node:
    return value if isinstance(value, Mapping) else {}
