"""Pickles of objects of classes that are not installed."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def pretended(*paths: str) -> Iterator[list[type]]:
    """Empty classes of these dotted paths, importable for as long as the block runs."""
    before = dict(sys.modules)
    kinds = []
    for path in paths:
        module, _, name = path.rpartition(".")
        kind = type(name, (), {"__module__": module})
        parents = module.split(".")
        for depth in range(1, len(parents) + 1):
            parent = ".".join(parents[:depth])
            sys.modules[parent] = types.ModuleType(parent)
        setattr(sys.modules[module], name, kind)
        kinds.append(kind)
    try:
        yield kinds
    finally:
        sys.modules.clear()
        sys.modules.update(before)


def pickled_as(path: str, state: Mapping[str, Any], *, protocol: int = 4) -> bytes:
    """The pickle of an object of a class, with these attributes."""
    with pretended(path) as (kind,):
        return pickle.dumps(filled(kind, state), protocol)


def filled(kind: type, state: Mapping[str, Any]) -> Any:
    """An object with these attributes."""
    made = kind()
    vars(made).update(state)
    return made


VEC_NORMALIZE = "stable_baselines3.common.vec_env.vec_normalize.VecNormalize"
RUNNING = "stable_baselines3.common.running_mean_std.RunningMeanStd"


def vec_normalize(mean: Any, var: Any, *, count: float = 100.0, **attributes: Any) -> bytes:
    """The file that VecNormalize.save() would write."""
    defaults = {"norm_obs": True, "clip_obs": 10.0, "epsilon": 1e-8, "old_obs": None}
    with pretended(VEC_NORMALIZE, RUNNING) as (wrapper, running):
        moments = filled(running, {"mean": mean, "var": var, "count": count})
        return pickle.dumps(filled(wrapper, {**defaults, "obs_rms": moments, **attributes}))
