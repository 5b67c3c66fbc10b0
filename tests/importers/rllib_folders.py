"""The golden directories of RLlib for tests, and changes to copies of them; needs neither ray nor torch."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.importers.restricted.numpy_names import KNOWN
from rlpipe.importers.restricted.reader import load_file

GOLDEN = Path(__file__).parents[1] / "golden" / "rllib"
MODULES = "learner_group/learner/rl_module"
CONNECTORS = "env_runner/env_to_module_connector"
Array = np.ndarray[Any, np.dtype[Any]]


def module(name: str, policy_id: str = "default_policy") -> Path:
    """The directory of a policy in a golden checkpoint."""
    return GOLDEN / name / MODULES / policy_id


def copied(name: str, folder: Path) -> Path:
    """A golden checkpoint in a folder of the test, to be changed."""
    target = folder / name
    shutil.copytree(GOLDEN / name, target)
    return target


def known(name: str, policy_id: str = "default_policy") -> tuple[Any, Array]:
    """Observations (for a Dict by key) and RLlib's actions on them."""
    with np.load(GOLDEN / f"{name}.npz") as found:
        start = f"{policy_id}/observations"
        parts = {key.removeprefix(start).strip("/"): found[key] for key in found if key.startswith(start)}
        return parts.get("", parts), found[f"{policy_id}/actions"]


def rewritten(file: Path, change: Callable[[Any], None]) -> None:
    """A pickle of plain values and arrays, read, changed and written again."""
    value = load_file(file, known=KNOWN)
    change(value)
    file.write_bytes(pickle.dumps(value))
