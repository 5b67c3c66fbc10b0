"""What a consumer demands of an ONNX file: other names, types and axes at its edges, around the same computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Literal

from rlpipe.errors import UnsupportedModuleError, listed
from rlpipe.exporters.signature import EPISODE_START, STATE, Signature, TensorSpec

LAYOUTS = MappingProxyType({"chw": (0, 3, 1, 2), "layers_first": (1, 0, 2)})
"""Names for axes: of images that are (batch, height, width, channels), of memories that are (batch, layers, size)."""

_BY_MEMORY = f"{STATE}:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Demands of a consumer; the defaults are rlpipe's own.

    Attributes:
        id: Its name.
        inputs: Name in the signature -> `name`, `dtype` and `layout` in the file; what is left out stays as it is. The
            order is that of the file. {} leaves all; otherwise every input of the policy has to be there, and every
            entry in the policy unless it is `optional: true`. `state:*/h` is the memory that its module calls so.
            `layout` is a name of `LAYOUTS`, which holds where the rank fits, or a list: axis i of the file is axis
            `layout[i]` of (batch, ...). `constant: false` takes the input out of the file and gives it that value.
        outputs: The same, without `constant`.
        constants: Further outputs: name -> `dtype` and `value`.
        metadata: Key in the file -> one of the essentials; None: all of them under their own keys.
        opset: Version of the operator set; None: the target's option.
        ir: Version of the file format; None: the lowest that fits.
        operators: What may be in the graph; None: anything but random numbers, dropout and control flow.
        batch: `fixed`: a batch of 1.
    """

    id: str = "rlpipe"
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] | None = None
    opset: int | None = None
    ir: int | None = None
    operators: tuple[str, ...] | None = None
    batch: Literal["dynamic", "fixed"] = "dynamic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One input or output, here and in the file.

    Attributes:
        spec: Here.
        name: In the file.
        dtype: In the file.
        axes: Axis i of the file is axis `axes[i]` here, the batch being 0; None: all stay.
        constant: What an input is that the file does not have, or None.
    """

    spec: TensorSpec
    name: str
    dtype: str
    axes: tuple[int, ...] | None = None
    constant: Any = None

    @property
    def dimensions(self) -> list[str | int]:
        """In the file, with "batch" for the batch."""
        here: list[str | int] = ["batch", *self.spec.shape]
        return here if self.axes is None else [here[axis] for axis in self.axes]

    def to_json(self) -> dict[str, Any]:
        """For the loader, which has nothing else."""
        return {
            "here": self.spec.name,
            "here_dtype": self.spec.dtype,
            "here_shape": list(self.spec.shape),
            "name": self.name,
            "dtype": self.dtype,
            "axes": None if self.axes is None else list(self.axes),
            "constant": self.constant,
        }


_FORBIDDEN = frozenset(
    (
        "Bernoulli", "Dropout", "If", "Loop", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike", "Scan",
    )
)  # fmt: skip


def edges(signature: Signature, profile: Profile) -> tuple[list[Edge], list[Edge]]:
    """Inputs and outputs in the order of the file.

    Raises:
        UnsupportedModuleError: The policy has other inputs or outputs than the profile knows, or other axes.
    """
    sides = (("inputs", signature.inputs, profile.inputs), ("outputs", signature.outputs, profile.outputs))
    inputs, outputs = (_side(side, specs, known, profile) for side, specs, known in sides)
    return inputs, outputs


def require_operators(model: Any, profile: Profile) -> None:
    """Check what is in the graph.

    Raises:
        UnsupportedModuleError: Operators that the profile does not allow; all of them.
    """
    found = {node.op_type for part in (model.graph, *model.functions) for node in part.node}
    wrong = found & _FORBIDDEN if profile.operators is None else found - set(profile.operators)
    if wrong:
        allowed = (
            "no random numbers, dropout and control flow" if profile.operators is None else listed(profile.operators)
        )
        raise UnsupportedModuleError(
            f"the policy needs operators that the profile {profile.id} does not allow",
            expected=allowed,
            found=listed(wrong),
            fix="choose another export.onnx.profile, or another target",
        )


def chosen_metadata(essentials: Mapping[str, str], profile: Profile) -> dict[str, str]:
    """The essentials under the keys that a profile wants.

    Raises:
        UnsupportedModuleError: One that this policy has not.
    """
    if profile.metadata is None:
        return dict(essentials)
    missing = sorted(set(profile.metadata.values()) - set(essentials))
    if missing:
        raise UnsupportedModuleError(
            f"the profile {profile.id} wants facts that are not known",
            expected=listed(essentials),
            found=listed(missing),
            fix="give them with artifact.metadata or artifact.names",
        )
    return {key: essentials[name] for key, name in profile.metadata.items()}


def _side(side: str, specs: Sequence[TensorSpec], known: Mapping[str, Any], profile: Profile) -> list[Edge]:
    if not known:
        return [_edge(spec, {}, profile) for spec in specs]
    named = {spec.name: spec for spec in specs}
    demands = {_absolute(key, specs): dict(demand or {}) for key, demand in known.items()}
    required = {name for name, demand in demands.items() if not demand.get("optional")}
    if not required <= set(named) <= set(demands):
        raise UnsupportedModuleError(
            f"the profile {profile.id} is for policies with other {side}",
            expected=listed(demands),
            found=listed(named),
            fix="choose another export.onnx.profile",
        )
    return [_edge(named[name], demand, profile) for name, demand in demands.items() if name in named]


def _absolute(key: str, specs: Sequence[TensorSpec]) -> str:
    """`state:*/h` as the policy has it; itself if it does not have exactly one."""
    if not key.startswith(_BY_MEMORY):
        return key
    pattern = key.removeprefix(_BY_MEMORY)
    found = [spec.name for spec in specs if spec.memory and fnmatchcase(spec.memory, pattern)]
    return found[0] if len(found) == 1 else key


def _edge(spec: TensorSpec, demand: Mapping[str, Any], profile: Profile) -> Edge:
    constant = demand.get("constant")
    if constant is not None and spec.kind != EPISODE_START:
        raise UnsupportedModuleError(
            f"the profile {profile.id} takes {spec.name} out of the file",
            expected=f"that only of {EPISODE_START}: whoever runs the file clears the memory instead",
            found=f"{spec.name}: constant: {constant}",
            fix="export a policy without that input",
        )
    return Edge(
        spec=spec,
        name=demand.get("name", spec.name),
        dtype=demand.get("dtype") or spec.dtype,
        axes=_axes(spec, demand.get("layout"), profile),
        constant=constant,
    )


def _axes(spec: TensorSpec, layout: Any, profile: Profile) -> tuple[int, ...] | None:
    rank = len(spec.shape) + 1
    axes = LAYOUTS.get(layout, ()) if isinstance(layout, str) else tuple(layout or ())
    if layout is None or (isinstance(layout, str) and axes and len(axes) != rank):
        return None
    if sorted(axes) != list(range(rank)):
        raise UnsupportedModuleError(
            f"the profile {profile.id} wants a layout that {spec.name} cannot have",
            expected=f"{listed(LAYOUTS)}, or the axes 0 to {rank - 1} in another order",
            found=str(layout),
            fix="correct its YAML",
        )
    return axes
