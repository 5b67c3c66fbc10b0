"""Options of a target that are named: a YAML file of ``_profiles/<target>`` in one of the config folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import OmegaConf

from rlpipe.config import conf
from rlpipe.config.findings import Findings
from rlpipe.errors import closest, listed

FOLDER = "_profiles"


def expanded(target_id: str, given: Mapping[str, Any], cls: type, findings: Findings) -> dict[str, Any]:
    """The options of a target, with a name in the place of a group of values replaced by those.

    Args:
        target_id: The target.
        given: Option name -> value.
        cls: Its options.
        findings: Where a name that is none is noted.
    """
    groups = {name for name, hint in get_type_hints(cls).items() if isinstance(hint, type) and is_dataclass(hint)}
    return {
        name: _values(target_id, name, value, findings) if name in groups and isinstance(value, str) else value
        for name, value in given.items()
    }


def _values(target_id: str, option: str, name: str, findings: Findings) -> Mapping[str, Any]:
    files = {file.stem: file for folder in _folders() for file in sorted((folder / FOLDER / target_id).glob("*.yaml"))}
    if name in files:
        found: Any = OmegaConf.to_container(OmegaConf.load(files[name]), resolve=True)
        return found if isinstance(found, Mapping) else {}
    near = closest(name, files)
    key = f"export.{target_id}.{option}"
    fix = f"did you mean {key}={near[0]}?" if near else f"add {FOLDER}/{target_id}/{name}.yaml to a config folder"
    findings.add(key, expected=f"one of {listed(files)}", found=repr(name), fix=fix)
    return {}


def _folders() -> list[Path]:
    """The shipped one last, so that its names cannot be taken."""
    own = conf.own_directory()
    return [*([own] if own else []), conf.shipped_directory()]
