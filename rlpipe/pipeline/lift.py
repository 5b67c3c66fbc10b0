"""Any component as the full tree of an algorithm, so that every task meets one shape.

A checkpoint may be an algorithm, its container of policies, one policy or one bare module; a foreign file is a policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from rlpipe.checkpoint.arrays import CLASS_PATH
from rlpipe.errors import SpecError
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Spec

ALGORITHM = "rlpipe.algorithms.algorithm.Algorithm"
CONTAINER = "rlpipe.modules.multi_rl_module.MultiRLModule"
LEARNER_CLASS = "rlpipe.algorithms.learner.Learner"
POLICIES = "policies"

Kind: TypeAlias = Literal["algorithm", "container", "policy", "module", "arrays", "learner", "training", "component"]

_BY_CLASS: Mapping[str, Kind] = MappingProxyType({CLASS_PATH: "arrays", LEARNER_CLASS: "learner"})
_BY_FIELDS: tuple[tuple[frozenset[str], Kind], ...] = (
    (frozenset({"loss", "optimizer", "scheduler"}), "training"),
    (frozenset({"module", "observation", "action"}), "policy"),
    (frozenset({"observation_space", "action_space", "model_config"}), "module"),
)
_FIXES = MappingProxyType(
    {
        "learner": "name a policy in it, such as learner/p1/policy, or the checkpoint that it belongs to",
        "training": "name the policy in it, such as learner/p1/policy",
    }
)


def kind_of(spec: Spec, children: Mapping[str, Any]) -> Kind:
    """What a component is, told by its spec and children (users' classes have any name)."""
    if POLICIES in children:
        return "algorithm"
    if spec.class_path in _BY_CLASS:
        return _BY_CLASS[spec.class_path]
    for fields, kind in _BY_FIELDS:
        if fields <= spec.config.keys():
            return kind
    return "container" if children else "component"


def lift(snapshot: Snapshot, *, policy_id: str, trust: tuple[str, ...] = ()) -> Snapshot:
    """The algorithm tree that holds the snapshot; an algorithm is returned as it is.

    Args:
        snapshot: An algorithm, container, policy or module; arrays may be stand-ins.
        policy_id: Id for a policy that comes alone.
        trust: Patterns of class paths that may be imported, to find out what a bare module puts out.

    Raises:
        SpecError: The component holds no policy.
    """
    kind = kind_of(snapshot.spec, snapshot.children)
    if kind == "algorithm":
        return snapshot
    if kind == "container":
        policies = {name: _as_policy(child, trust) for name, child in snapshot.children.items()}
        return algorithm_of(replace(snapshot, children=policies))
    if kind in ("policy", "module", "arrays"):  # bare arrays stand where a policy would; building them says why not
        return algorithm_of(container_of({policy_id: _as_policy(snapshot, trust)}))
    raise SpecError(
        f"{snapshot.spec.class_path} holds no policy",
        expected="an algorithm, a container of policies, a policy or a module",
        found=f"a component with {', '.join(sorted(snapshot.spec.config)) or 'nothing'} in its spec",
        fix=_FIXES.get(kind, "name the directory of a policy, or the checkpoint that it belongs to"),
    )


def algorithm_of(container: Snapshot) -> Snapshot:
    """An algorithm with nothing but this container."""
    return Snapshot(Spec(ALGORITHM), children={POLICIES: container}, whole=container.whole)


def container_of(policies: Mapping[str, Snapshot]) -> Snapshot:
    """A plain container of these policies."""
    return Snapshot(Spec(CONTAINER), children=dict(policies), whole=all(policy.whole for policy in policies.values()))


def policies_of(tree: Snapshot) -> Mapping[str, Snapshot]:
    """Policy id -> policy, of an algorithm tree."""
    return tree.children[POLICIES].children


def _as_policy(snapshot: Snapshot, trust: tuple[str, ...]) -> Snapshot:
    """The policy around a bare module: it takes prepared observations and acts by the default stages."""
    if kind_of(snapshot.spec, snapshot.children) != "module":
        return snapshot
    # The only torch on this path: what a module puts out is known to its code alone.
    from rlpipe.modules.rl_module import RLModuleSpec
    from rlpipe.policies.policy_spec import PolicySpec
    from rlpipe.policies.stages import default_action_stages

    module = RLModuleSpec.from_json({"class": snapshot.spec.class_path, **snapshot.spec.config}, snapshot.spec.options)
    output: Any = module.build(trust=trust).output_kind()
    action = default_action_stages(module.action_space, output)
    policy = PolicySpec(module, module.observation_space, module.action_space, observation=(), action=action)
    return replace(snapshot, spec=policy.to_spec())
