"""What there is to know about components without building one: no torch, and of a checkpoint no array file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from rlpipe.algorithms.learner_snapshot import COPIES
from rlpipe.checkpoint.inspect import ArrayEntry, ComponentInfo
from rlpipe.pipeline.described import identity
from rlpipe.pipeline.lift import Kind, kind_of
from rlpipe.snapshot.dtypes import logical_name
from rlpipe.snapshot.identity import FINGERPRINT_DIGITS
from rlpipe.snapshot.selection import Selection, require_matches
from rlpipe.snapshot.snapshot import ROLES, Role, Snapshot, entry_of, ties, walk
from rlpipe.snapshot.spaces import describe, from_json
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import arrays

MOST_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFacts:
    """How much of a component has one role; a tied array counts once.

    Attributes:
        arrays: How many.
        parameters: Numbers in them.
        nbytes: Bytes of them.
    """

    arrays: int
    parameters: int
    nbytes: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"arrays": self.arrays, "parameters": self.parameters, "bytes": self.nbytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFacts:
    """What a policy or module is, in words.

    Attributes:
        module_class: Dotted path of its module's class.
        observation_space: On one line.
        action_space: On one line.
        observation: Its observation stages, one text each; empty for a bare module.
        action: Its action stages.
        target: Its stages from an action to the actuator's target, which only `export.action=target` runs.
        memory: What its module remembers: name -> dtype and shape.
        model_config: The architecture.
    """

    module_class: str
    observation_space: str
    action_space: str
    observation: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    memory: Mapping[str, str] = field(default_factory=dict)
    model_config: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "module_class": self.module_class,
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "observation": list(self.observation),
            "action": list(self.action),
            "target": list(self.target),
            "memory": dict(self.memory),
            "model_config": dict(self.model_config),
        }


@dataclass(frozen=True, kw_only=True)
class ComponentFacts:
    """One component.

    Attributes:
        path: From what was inspected; "" for itself.
        kind: What it is.
        spec: How it is built.
        arrays: Its arrays, those of the selection; a tied one under each of its keys.
        backend: Id of its backend; None without array file.
        file_size: Bytes of its array file.
        content_hash: Identity of all that it is.
        inference_hash: Identity of what acts in it.
        metadata: Plain JSON, as stored.
    """

    path: str
    kind: Kind
    spec: Spec
    arrays: tuple[ArrayEntry, ...]
    backend: str | None
    file_size: int
    content_hash: str
    inference_hash: str
    metadata: Mapping[str, Any]

    @property
    def is_copy(self) -> bool:
        """Whether it is a copy of a policy, or another part of what trains policies or lets them act."""
        return self.path.partition("/")[0] in COPIES

    @property
    def fingerprint(self) -> str:
        """The first digits of the inference hash."""
        return self.inference_hash[:FINGERPRINT_DIGITS]

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    def role(self, role: Role) -> RoleFacts:
        """How much of it has this role."""
        counted = [array for array in self.arrays if array.role == role and not array.tied_to]
        return RoleFacts(
            arrays=len(counted),
            parameters=sum(prod(array.shape) for array in counted),
            nbytes=sum(array.nbytes for array in counted),
        )

    def dtypes(self) -> dict[str, int]:
        """Dtype name -> number of arrays."""
        names = [array.dtype for array in self.arrays]
        return {name: names.count(name) for name in sorted(set(names))}

    def policy(self) -> PolicyFacts | None:
        """What it is as a policy or bare module; None for anything else."""
        if self.kind not in ("policy", "module"):
            return None
        config = self.spec.config
        module = config["module"] if self.kind == "policy" else {"class": self.spec.class_path, **config}
        return PolicyFacts(
            module_class=module["class"],
            observation_space=describe(from_json(config["observation_space"])),
            action_space=describe(from_json(config["action_space"])),
            observation=tuple(map(stage_text, config.get("observation", ()))),
            action=tuple(map(stage_text, config.get("action", ()))),
            target=tuple(map(stage_text, config.get("target", ()))),
            memory={name: f"{one['dtype']} {one['shape']}" for name, one in module.get("state", {}).items()},
            model_config=module["model_config"],
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        policy = self.policy()
        return {
            "path": self.path,
            "kind": self.kind,
            "class": self.spec.class_path,
            "options": dict(self.spec.options),
            "policy": None if policy is None else policy.to_json(),
            "roles": {role: self.role(role).to_json() for role in ROLES},
            "dtypes": self.dtypes(),
            "backend": self.backend,
            "file_size": self.file_size,
            "content_hash": self.content_hash,
            "inference_hash": self.inference_hash,
            "fingerprint": self.fingerprint,
            "metadata": dict(self.metadata),
            "arrays": [_array_json(array) for array in self.arrays],
        }


def facts_of_checkpoint(root: ComponentInfo, selection: Selection) -> tuple[ComponentFacts, ...]:
    """The selected components of a checkpoint and those above them, parents first.

    Raises:
        SelectionError: A pattern for keys matches nothing.
    """
    taken = [info for info in root.walk() if selection.takes_component(info.path)]
    require_matches(selection.keys, {key for info in taken for key in info.roles}, "key")
    return tuple(_of_info(info, selection) for info in root.walk() if selection.passes_through(info.path))


def facts_of_snapshot(snapshot: Snapshot, *, name: str) -> tuple[ComponentFacts, ...]:
    """The components of a snapshot in memory, parents first; the root's path is ``name``."""
    tied = {key: group[0] for group in ties(snapshot) for key in group[1:]}
    return tuple(_of_snapshot(part, path, tied, name) for path, part in walk(snapshot))


def warnings_of(components: Iterable[ComponentFacts]) -> tuple[str, ...]:
    """What is worth a warning: policies that were never trained."""
    own = [facts for facts in components if not facts.is_copy]
    return untrained(facts.name or "this policy" for facts in own if facts.metadata.get("trained") is False)


def untrained(policy_ids: Iterable[str]) -> tuple[str, ...]:
    """The warning about policies that were never trained; none if there are none."""
    names = list(dict.fromkeys(policy_ids))
    if not names:
        return ()
    verb = "was" if len(names) == 1 else "were"
    return (f"{', '.join(names)} {verb} never trained: just built, or 0 timesteps in the file (trained: false)",)


def stage_text(stage: Mapping[str, Any]) -> str:
    """A stage on one line, long lists shortened: ``normalize(eps=1e-08, clip=10)``."""
    given = ", ".join(f"{name}={short(value)}" for name, value in stage.items() if name != "type")
    return f"{stage['type']}({given})" if given else str(stage["type"])


def short(value: Any) -> str:
    """JSON on one line for people: stages as such, long lists by their ends and length."""
    if isinstance(value, Mapping) and "type" in value:
        return stage_text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {short(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list) and len(value) > MOST_SHOWN:
        return f"[{short(value[0])} .. {short(value[-1])}, {len(value)} in all]"
    if isinstance(value, list):
        return "[" + ", ".join(map(short, value)) + "]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _of_info(info: ComponentInfo, selection: Selection) -> ComponentFacts:
    taken = selection.takes_component(info.path)
    chosen = (
        array for array in info.arrays if taken and selection.takes_entry(entry_of(array.key, info.roles), array.role)
    )
    return ComponentFacts(
        path=info.path,
        kind=kind_of(info.spec, info.children),
        spec=info.spec,
        arrays=tuple(chosen),
        backend=info.backend,
        file_size=info.file_size,
        content_hash=info.content_hash,
        inference_hash=info.inference_hash,
        metadata=info.metadata,
    )


def _of_snapshot(part: Snapshot, path: str, tied: Mapping[str, str], name: str) -> ComponentFacts:
    prefix = f"{path}/" if path else ""
    found = tuple(
        ArrayEntry(
            key,
            logical_name(array.dtype),
            tuple(array.shape),
            part.roles[entry_of(key, part.roles)],
            array.nbytes,
            "",
            tied.get(prefix + key, ""),
        )
        for key, array in sorted(arrays(part.state).items())
    )
    content, inference = identity(part)
    return ComponentFacts(
        path="/".join(filter(None, (name, path))),
        kind=kind_of(part.spec, part.children),
        spec=part.spec,
        arrays=found,
        backend=None,
        file_size=0,
        content_hash=content,
        inference_hash=inference,
        metadata=part.metadata,
    )


def _array_json(array: ArrayEntry) -> dict[str, Any]:
    return {
        "key": array.key,
        "dtype": array.dtype,
        "shape": list(array.shape),
        "role": array.role,
        "bytes": array.nbytes,
        "tied_to": array.tied_to or None,
    }
