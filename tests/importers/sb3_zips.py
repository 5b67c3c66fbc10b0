"""Zips of Stable-Baselines3 with something changed in them, made of the golden ones without the library."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch

GOLDEN = Path(__file__).parents[1] / "golden" / "sb3"
Change = Callable[[dict[str, Any]], None]


class Evil:
    """Unpickling this would leave a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self.mark)!r}, 'w').close()",)


def pickled(value: Any) -> dict[str, str]:
    """A field as the library stores what JSON cannot hold."""
    return {":type:": str(type(value)), ":serialized:": base64.b64encode(pickle.dumps(value)).decode()}


def rewritten(
    source: str,
    target: Path,
    *,
    data: Change | None = None,
    weights: Change | None = None,
    members: Mapping[str, bytes] | None = None,
    without: Collection[str] = (),
) -> Path:
    """A golden zip with changes.

    Args:
        source: Name of the golden file.
        target: Where the new one goes.
        data: Changes the JSON in place.
        weights: Changes the state dict in place.
        members: Members that are added or replaced.
        without: Members that are left out.
    """
    with zipfile.ZipFile(GOLDEN / f"{source}.zip") as old:
        contents = {name: old.read(name) for name in old.namelist() if name not in without}
    if data is not None:
        fields = json.loads(contents["data"])
        data(fields)
        contents["data"] = json.dumps(fields).encode()
    if weights is not None:
        state = torch.load(io.BytesIO(contents["policy.pth"]), weights_only=True)
        weights(state)
        stream = io.BytesIO()
        torch.save(state, stream)
        contents["policy.pth"] = stream.getvalue()
    with zipfile.ZipFile(target, "w") as new:
        for name, content in {**contents, **(members or {})}.items():
            new.writestr(name, content)
    return target
