"""Bounds that the weights never reach show in a copy that is driven beyond them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.preparation import Preparation, prepare
from rlpipe.exporters.saturation import Probe
from rlpipe.exporters.targets import onnx as target
from rlpipe.exporters.verify import verify
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box, Discrete, Space, Tuple
from tests.exporters.graphs import unbounded


def prepared(module: str, action_space: Space) -> Preparation:
    torch.manual_seed(0)
    policy = PolicySpec.default(f"rlpipe.modules.torch.{module}", unbounded(4), action_space).build()
    return prepare(snapshot_of(policy), recorded=None, trust=())


@pytest.fixture(scope="module")
def probe() -> Probe:
    """Of a PPO policy whose actions stay far from their bounds."""
    found = prepared("ppo.PPOModule", Box(np.array([-9, 5], "f4"), np.array([9, 60], "f4"), np.dtype("f4")))
    assert np.abs(found.truth.actions["action"][:, 0]).max() < 9
    assert found.probe is not None
    return found.probe


def test_the_copy_reaches_every_bound(probe: Probe) -> None:
    actions = probe.truth.actions["action"]
    assert actions.min(axis=0).tolist() == [-9, 5]
    assert actions.max(axis=0).tolist() == [9, 60]


@pytest.mark.parametrize("space", [Discrete(3), Box.uniform(-np.inf, np.inf, (2,))])
def test_without_bounds_there_is_no_copy(space: Space) -> None:
    assert prepared("ppo.PPOModule", space).probe is None


def test_a_clip_that_was_lost_is_seen(probe: Probe, tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    with captured():
        target.export(probe.graph, file, target.Options(), {})
    tolerance = Tolerance(atol=1e-6 * probe.gain, rtol=1e-5)
    assert verify(target, file, probe.graph.signature, probe.truth, tolerance).status == "ok"
    model = copy.deepcopy(onnx.load(file))
    lost = [node for node in model.graph.node if node.op_type in ("Clip", "Min", "Max")]
    assert lost
    for node in lost:
        node.CopyFrom(helper.make_node("Identity", [node.input[0]], list(node.output)))
    onnx.save(model, file)
    found = verify(target, file, probe.graph.signature, probe.truth, tolerance)
    assert found.status == "mismatch"
    assert found.max_error > 1


def remembering(action_space: Space, **options: Any) -> Preparation:
    torch.manual_seed(0)
    lstm = {"type": "lstm", "hidden_size": 8, "num_layers": 1}
    config = {"actor": lstm, "critic": lstm}
    spec = PolicySpec.default("rlpipe.modules.torch.ppo.PPOModule", unbounded(4), action_space, model_config=config)
    return prepare(snapshot_of(spec.build()), recorded=None, trust=(), options=GraphOptions(**options))


@pytest.mark.parametrize("options", [{}, {"mode": "stochastic", "outputs": ("mean", "log_std")}])
def test_a_clip_that_is_lost_behind_a_memory_is_seen(options: dict[str, Any], tmp_path: Path) -> None:
    bounds = np.array([9, 60], "f4")
    found = remembering(Box(-bounds, bounds, np.dtype("f4")), **options)
    driven = found.probe
    assert driven is not None
    assert driven.truth.episodes is not None
    actions = driven.truth.actions["action"]
    assert (actions.min(axis=0) == -bounds).all()
    assert (actions.max(axis=0) == bounds).all()
    file = tmp_path / "policy.onnx"
    with captured():
        target.export(driven.graph, file, target.Options(), {})
    tolerance = Tolerance(atol=1e-6 * driven.gain, rtol=1e-5)
    assert verify(target, file, driven.graph.signature, driven.truth, tolerance).status == "ok"
    model = onnx.load(file)
    for node in model.graph.node:
        if node.op_type in ("Clip", "Min", "Max"):
            node.CopyFrom(helper.make_node("Identity", [node.input[0]], list(node.output)))
    onnx.save(model, file)
    assert verify(target, file, driven.graph.signature, driven.truth, tolerance).status == "mismatch"


def test_several_leaves_are_driven_together() -> None:
    parts = Tuple((Box.uniform(-9, 9, (2,)), Discrete(3), Box.uniform(-np.inf, np.inf, (1,))))
    torch.manual_seed(0)
    spec = PolicySpec.default("rlpipe.modules.torch.ppo.PPOModule", unbounded(4), parts)
    found = prepare(snapshot_of(spec.build()), recorded=None, trust=()).probe
    assert found is not None
    assert np.abs(found.truth.actions["action.0"]).max() == 9
    assert set(found.truth.actions["action.1"].tolist()) <= {0, 1, 2}
