"""The states that the store is measured with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rlpipe.snapshot import Snapshot, Spec, walk
from rlpipe.snapshot.state import arrays, entries, from_dotted


def policy(layers: int, width: int, depth: int, seed: int) -> Snapshot:
    """A component of `layers` pairs of a (width, depth) weight and a (width,) bias."""
    rng = np.random.default_rng(seed)
    flat: dict[str, Any] = {}
    for index in range(layers):
        flat[f"encoder.{index}.weight"] = rng.standard_normal((width, depth), np.float32)
        flat[f"encoder.{index}.bias"] = rng.standard_normal(width, np.float32)
    return leaf(flat)


def leaf(flat: Mapping[str, Any]) -> Snapshot:
    """A component with these arrays, all of role inference."""
    state = from_dotted(flat)
    return Snapshot(Spec("some.Policy"), state, dict.fromkeys(entries(state), "inference"))


def tree(policies: Mapping[str, Snapshot]) -> Snapshot:
    """An algorithm with these policies."""
    return Snapshot(Spec("some.Algorithm"), children={"policies": Snapshot(Spec("some.Box"), children=policies)})


def state_a() -> Snapshot:
    """3 policies of 20 arrays, 0.5 MB."""
    return tree({f"p{index}": policy(10, 64, 64, index) for index in range(3)})


def state_b() -> Snapshot:
    """200 policies of 12 arrays, 2.7 MB."""
    return tree({f"p{index:03}": policy(6, 23, 23, index) for index in range(200)})


def state_b_later() -> Snapshot:
    """The same after one policy has learnt."""
    policies = state_b().children["policies"].children
    return tree({**policies, "p123": policy(6, 23, 23, 1000)})


def state_c() -> Snapshot:
    """One policy of 16 arrays of 64 MiB."""
    rng = np.random.default_rng(0)
    return tree({"p0": leaf({f"w{i:02}.weight": rng.random((4096, 4096), np.float32) for i in range(16)})})


def with_class(snapshot: Snapshot, class_path: str) -> Snapshot:
    """The only policy of a tree, under another class."""
    (part,) = snapshot.children["policies"].children.values()
    return replace(part, spec=Spec(class_path))


def flat_arrays(snapshot: Snapshot) -> dict[str, Any]:
    """Every array of a tree under its dotted full name."""
    return {
        f"{path}/{key}".replace("/", ".").lstrip("."): array
        for path, part in walk(snapshot)
        for key, array in arrays(part.state).items()
    }
