"""ONNX: one self-contained file for ONNX Runtime and everything else that reads the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpipe.errors import ConfigError, UnsupportedModuleError, listed
from rlpipe.exporters.onnx_cleaning import BATCH, clean
from rlpipe.exporters.onnx_edges import apply
from rlpipe.exporters.onnx_profile import Profile, chosen_metadata, require_operators
from rlpipe.exporters.target import CheckOptions, Step, install_hint

if TYPE_CHECKING:
    from rlpipe.exporters.graph import ExportGraph

FILE_NAME = "policy.onnx"
BLOCKED: tuple[str, ...] = ("torch",)
LOADING_RUNS_CODE = False

_LOWEST_OPSET = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(CheckOptions):
    """How the file is made and checked.

    Attributes:
        opset: Version of the operator set; 18 runs on ONNX Runtime 1.14 and newer.
        profile: What a consumer demands; in a config the name of a file of `_profiles/onnx`.
    """

    opset: int = 18
    profile: Profile = field(default_factory=Profile)

    def __post_init__(self) -> None:
        """Check the values."""
        CheckOptions.__post_init__(self)  # a class with slots is made anew, which super() does not see
        if isinstance(self.profile, Mapping):
            # From the JSON of a job.
            object.__setattr__(self, "profile", Profile(**self.profile))
        if self.profile.opset is not None:
            object.__setattr__(self, "opset", self.profile.opset)
        if self.opset < _LOWEST_OPSET:
            raise ConfigError(
                "export.onnx.opset is too low",
                expected=f"at least {_LOWEST_OPSET}: torch writes 18 for older ones",
                found=str(self.opset),
                fix="export.onnx.opset=18",
            )


def missing_dependency() -> str | None:
    """What to install, or None."""
    return install_hint("torch", "onnx", "onnxscript", "onnxruntime")


def export(graph: ExportGraph, path: Path, options: Options, essentials: Mapping[str, str]) -> None:
    """Write the file; equal policies give equal bytes.

    Raises:
        UnsupportedModuleError: An operator that ONNX lacks, or a file that is not what was asked for.
    """
    model = _converted(graph, options)
    clean(model, chosen_metadata(essentials, options.profile))
    _require_as_asked(model, graph, options)
    require_operators(model, options.profile)
    if options.profile != Profile():
        apply(model, graph.signature, options.profile)
        _check(model)
    path.write_bytes(model.SerializeToString(deterministic=True))


def operators(path: str) -> tuple[str, ...]:
    """The names of what a file computes with; it is read and not run."""
    import onnx

    model = onnx.load(path)
    return tuple(sorted({node.op_type for part in (model.graph, *model.functions) for node in part.node}))


def load(path: str) -> Step:  # noqa: C901 - its text alone goes where rlpipe is not
    """Open a file in ONNX Runtime on the CPU; what its profile renamed has the names of the signature again."""
    import json

    import numpy as np
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def step(arrays: Any) -> dict[str, Any]:
        return dict(zip(names, session.run(names, dict(arrays)), strict=True))

    profile = json.loads(session.get_modelmeta().custom_metadata_map.get("rlpipe.profile", "{}"))
    if not profile:
        return step

    def fed(entry: Any, array: Any, count: int) -> Any:
        expected = (entry["here_dtype"], (count, *entry["here_shape"]))
        if (array.dtype, array.shape) != expected:
            raise ValueError(f"{entry['here']}: expected {expected}, got {(array.dtype, array.shape)}")
        array = array.astype(entry["dtype"])
        return array if entry["axes"] is None else np.ascontiguousarray(array.transpose(entry["axes"]))

    def given(entry: Any, found: Any) -> Any:
        found = found if entry["axes"] is None else found.transpose(np.argsort(entry["axes"]))
        return found.astype(entry["here_dtype"])

    def through_profile(arrays: Any) -> dict[str, Any]:
        if set(arrays) != {entry["here"] for entry in profile["inputs"]}:
            raise ValueError(f"expected {[entry['here'] for entry in profile['inputs']]}, found {sorted(arrays)}")
        count, arrays = len(next(iter(arrays.values()))), dict(arrays)
        for entry in profile["inputs"]:
            # Without an input for it in the file, it is its caller who clears the memory.
            if entry["constant"] is not None:
                begins = fed(entry, arrays[entry["here"]], count) != entry["constant"]
                arrays.update({n: _cleared(array, begins) for n, array in arrays.items() if n.startswith("state.")})
        spans = [slice(row, row + 1) for row in range(count)] if profile["batch"] else [slice(count)]
        found = []
        for span in spans:
            rows = {name: array[span] for name, array in arrays.items()}
            taken = [entry for entry in profile["inputs"] if entry["constant"] is None]
            size = len(range(*span.indices(count)))
            outputs = step({entry["name"]: fed(entry, rows[entry["here"]], size) for entry in taken})
            found.append({entry["here"]: given(entry, outputs[entry["name"]]) for entry in profile["outputs"]})
        return {name: np.concatenate([one[name] for one in found]) for name in found[0]}

    def _cleared(array: Any, begins: Any) -> Any:
        array = array.copy()
        array[begins] = 0
        return array

    return through_profile


def _converted(graph: ExportGraph, options: Options) -> Any:
    import torch

    from rlpipe.exporters.onnx_conversion import converted

    try:
        return converted(graph, options.opset)
    except torch.onnx.errors.OnnxExporterError as error:
        raise UnsupportedModuleError(
            "torch cannot write this policy as ONNX",
            expected=f"operators of opset {options.opset}",
            found=_last_line(error),
            fix="replace the operator, or try another export.onnx.opset",
        ) from error


def _last_line(error: BaseException) -> str:
    """What went wrong at the bottom: torch wraps the cause in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _require_as_asked(model: Any, graph: ExportGraph, options: Options) -> None:
    """torch falls back in silence: to fixed batches, other opsets, dropped inputs. Nothing of that may pass."""
    found = [
        *_misfits(model.graph.input, graph.signature.inputs, "input"),
        *_misfits(model.graph.output, graph.signature.outputs, "output"),
        *_foreign_opsets(model, options),
    ]
    if found:
        raise UnsupportedModuleError(
            "torch wrote another ONNX model than was asked for",
            expected=f"opset {options.opset} and a symbolic batch, names and dtypes as in the signature",
            found=listed(found),
            fix="report this with the policy's module, please",
        )
    _check(model)


def _check(model: Any) -> None:
    import onnx

    onnx.checker.check_model(model, full_check=True)


def _misfits(items: Any, specs: Any, side: str) -> list[str]:
    from onnx import helper

    expected = [(spec.name, spec.dtype, (BATCH, *spec.shape)) for spec in specs]
    found = []
    for item in items:
        tensor = item.type.tensor_type
        shape = tuple(dimension.dim_param or dimension.dim_value for dimension in tensor.shape.dim)
        found.append((item.name, helper.tensor_dtype_to_np_dtype(tensor.elem_type).name, shape))
    return [f"{side} {text}" for text in found if text not in expected] + (
        [] if len(found) == len(expected) else [f"{len(found)} {side}s for {len(expected)}"]
    )


def _foreign_opsets(model: Any, options: Options) -> list[str]:
    found = [(opset.domain or "ai.onnx", opset.version) for opset in model.opset_import]
    return [f"opset {domain} {version}" for domain, version in found if (domain, version) != ("ai.onnx", options.opset)]
