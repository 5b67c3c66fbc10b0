"""Modules of the new stack: what the constructor says, and which classes are refused."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.folders import ARGS
from rlpipe.importers.libraries.rllib.new_stack import read_module
from rlpipe.importers.libraries.rllib.training import Training
from tests.importers.rllib_folders import module


def copied(name: str, folder: Path) -> Path:
    """A module that was taken out of its algorithm, to be changed."""
    shutil.copytree(module(name), folder / "p")
    return folder / "p"


def read(folder: Path) -> Any:
    return read_module(folder, "p", None, Training(), agent=None)


def with_bytes(folder: Path, old: bytes, new: bytes) -> Path:
    """The same with a name in the constructor changed for one of the same length."""
    file = folder / ARGS
    data = file.read_bytes()
    assert old in data
    assert len(old) == len(new)
    file.write_bytes(data.replace(old, new))
    return folder


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ppo_box", "PPOModule"),
        ("ppo_image_heads", "PPOModule"),
        ("dqn_atoms", "DQNModule"),
        ("sac", "SACModule"),
        ("sac_choices", "SACModule"),
    ],
)
def test_classes_lead_to_families(name: str, kind: str, tmp_path: Path) -> None:
    found = read(copied(name, tmp_path))
    config = found.snapshot.spec.config["module"]
    assert config["class"].rpartition(".")[2] == kind
    assert "was taken out of its algorithm" in found.report.notes[0]
    assert "trained" not in found.snapshot.metadata


@pytest.mark.parametrize(
    ("name", "old", "new", "named"),
    [
        ("ppo_box", b"DefaultPPOTorchRLModule", b"DefaultXYZTorchRLModule", "DefaultXYZTorchRLModule"),
        ("ppo_box", b"ray.rllib.algorithms.ppo.torch", b"raw.rllib.algorithms.ppo.torch", "raw.rllib"),
        ("ppo_box", b"ray.rllib.algorithms.ppo.ppo_catalog", b"my_package.algorithms.x.ppo_catalogs", "catalog"),
    ],
)
def test_classes_of_others_are_refused_by_name(name: str, old: bytes, new: bytes, named: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    if old not in (folder / ARGS).read_bytes():
        pytest.skip("this version of ray does not name its catalog")
    with pytest.raises(ForeignFormatError, match=named) as caught:
        read(with_bytes(folder, old, new))
    assert "build an RLModule with the same network" in str(caught.value)


def rewritten(folder: Path, **settings: Any) -> Path:
    """The same with settings of the networks changed; classes stay names."""
    from rlpipe.importers.libraries.rllib.constructors import read_constructor

    class_path = read_constructor(folder).class_path
    kwargs = dict(read_constructor(folder).kwargs)
    config = {**kwargs["model_config"], **settings}
    state = {"model_config": config, "inference_only": False}
    observation, action = (_space(kwargs[name]) for name in ("observation_space", "action_space"))
    arguments = ((), {**state, "observation_space": observation, "action_space": action})
    data = pickle.dumps({"class": "CLASS", "ctor_args_and_kwargs": arguments}, protocol=2)
    module_name, _, name = class_path.rpartition(".")
    mark = pickle.dumps("CLASS", protocol=2)[2:-3]
    assert data.count(mark) == 1
    (folder / ARGS).write_bytes(data.replace(mark, f"c{module_name}\n{name}\n".encode()))
    return folder


def _space(record: Any) -> Any:
    import gymnasium

    if record.class_path.endswith("Discrete"):
        return gymnasium.spaces.Discrete(int(record.attribute("n")))
    low, high = (np.asarray(record.attribute(name)) for name in ("low", "high"))
    return gymnasium.spaces.Box(low, high, dtype=low.dtype)


@pytest.mark.parametrize("setting", ["fcnet_use_layernorm", "head_fcnet_use_layernorm"])
def test_layer_normalisation_is_refused_by_name(setting: str, tmp_path: Path) -> None:
    folder = rewritten(copied("ppo_box", tmp_path), **{setting: True})
    with pytest.raises(ForeignFormatError, match="layer normalisation"):
        read(folder)


def test_settings_that_do_not_fit_the_weights_are_refused(tmp_path: Path) -> None:
    folder = rewritten(copied("ppo_image_heads", tmp_path), conv_filters=[[4, 4, 2]])
    with pytest.raises(ForeignFormatError, match=r"net\.0\.cnn"):
        read(folder)
    assert read(rewritten(folder, conv_filters=[[4, 4, 2], [6, 3, 1, "valid"]]))
