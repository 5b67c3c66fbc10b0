"""What a consumer demands of an ONNX file: other names and types at its edges, around the same computation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rlpipe.errors import UnsupportedModuleError, listed
from rlpipe.exporters.signature import Signature, TensorSpec

METADATA_KEY = "rlpipe.profile"
"""Where the file says how its tensors are called and typed here, if that differs."""

_INNER = "{}_as_trained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Demands of a consumer; the defaults are rlpipe's own.

    Attributes:
        id: Its name.
        inputs: Name in the signature -> `name`, `dtype` and `layout` (`chw` for images that are `hwc` in the signature)
            in the file; what is left out stays. {} leaves all; otherwise every input has to be there.
        outputs: The same for outputs, without `layout`.
        constants: Further outputs: name -> `dtype` and `value`.
        metadata: Key in the file -> one of the essentials; None: all of them under their own keys.
        opset: Version of the operator set; None: the target's option.
        ir: Version of the file format; None: the lowest that fits.
        operators: What may be in the graph; None: anything but random numbers, dropout and control flow.
        batch: `fixed`: a first dimension of 1.
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


_FORBIDDEN = frozenset(
    (
        "Bernoulli", "Dropout", "If", "Loop", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike", "Scan",
    )
)  # fmt: skip


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


def apply(model: Any, signature: Signature, profile: Profile) -> None:
    """Give a model the edges that a profile demands, and note in its metadata how they map to the signature.

    Raises:
        UnsupportedModuleError: The policy has other inputs or outputs than the profile knows.
    """
    _require_known(signature, profile)
    mapping = {
        "inputs": [_input(model, spec, profile.inputs.get(spec.name, {})) for spec in signature.inputs],
        "outputs": [_output(model, spec, profile.outputs.get(spec.name, {})) for spec in signature.outputs],
        "batch": 1 if profile.batch == "fixed" else None,
    }
    _add_constants(model, profile.constants)
    if profile.batch == "fixed":
        for tensor in [*model.graph.input, *model.graph.output]:
            dimensions = tensor.type.tensor_type.shape.dim
            if dimensions and dimensions[0].dim_param:
                dimensions[0].dim_value = 1
    if profile.ir is not None:
        model.ir_version = profile.ir
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA_KEY, json.dumps({"id": profile.id, **mapping}, sort_keys=True)


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


def _require_known(signature: Signature, profile: Profile) -> None:
    sides: tuple[tuple[str, Sequence[TensorSpec], Mapping[str, Any]], ...] = (
        ("inputs", signature.inputs, profile.inputs),
        ("outputs", signature.outputs, profile.outputs),
    )
    for side, specs, known in sides:
        names = {spec.name for spec in specs}
        if known and names != set(known):
            raise UnsupportedModuleError(
                f"the profile {profile.id} is for policies with other {side}",
                expected=listed(known),
                found=listed(names),
                fix="choose another export.onnx.profile",
            )


def _input(model: Any, spec: TensorSpec, demand: Mapping[str, Any]) -> dict[str, Any]:
    """Put a cast and a transposition behind an input, and give it its name."""
    from onnx import helper

    made = _entry(spec, demand)
    (value,) = [item for item in model.graph.input if item.name == spec.name]
    _rename(model, spec.name, inner := _INNER.format(spec.name))
    last, nodes = made["name"], []
    if made["layout"] == "chw":
        nodes.append(helper.make_node("Transpose", [last], [f"{inner}_hwc"], perm=[0, 2, 3, 1]))
        last = f"{inner}_hwc"
    nodes.append(helper.make_node("Cast", [last], [inner], to=helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))))
    shape = (*spec.shape[2:], *spec.shape[:2]) if made["layout"] == "chw" else spec.shape
    value.CopyFrom(_value(made["name"], made["dtype"], shape))
    for index, node in enumerate(nodes):
        model.graph.node.insert(index, node)
    return made


def _output(model: Any, spec: TensorSpec, demand: Mapping[str, Any]) -> dict[str, Any]:
    from onnx import helper

    made = _entry(spec, demand)
    (value,) = [item for item in model.graph.output if item.name == spec.name]
    _rename(model, spec.name, inner := _INNER.format(spec.name))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(made["dtype"]))
    model.graph.node.append(helper.make_node("Cast", [inner], [made["name"]], to=kind))
    value.CopyFrom(_value(made["name"], made["dtype"], spec.shape))
    return made


def _entry(spec: TensorSpec, demand: Mapping[str, Any]) -> dict[str, Any]:
    """How a tensor is called and typed here and there."""
    return {
        "here": spec.name,
        "here_dtype": spec.dtype,
        "name": demand.get("name", spec.name),
        "dtype": demand.get("dtype") or spec.dtype,
        "layout": demand.get("layout") if len(spec.shape) == 3 else None,
    }


def _value(name: str, dtype: str, shape: Sequence[int]) -> Any:
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, ["batch", *shape])


def _rename(model: Any, old: str, new: str) -> None:
    """Give a value another name wherever it is read or made."""
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]


def _add_constants(model: Any, constants: Mapping[str, Any]) -> None:
    from onnx import helper, numpy_helper

    for name, constant in constants.items():
        array = np.asarray(constant["value"], dtype=constant["dtype"])
        model.graph.initializer.append(numpy_helper.from_array(array, f"{name}_value"))
        model.graph.node.append(helper.make_node("Identity", [f"{name}_value"], [name]))
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.output.append(helper.make_tensor_value_info(name, kind, array.shape))
