"""Graphs of every kind of space, traced by torch.export with a symbolic batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.export import Dim

from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.policies.stages import Argmax, Cast, Flatten, Normalize, default_action_stages, prepared_space
from rlpipe.snapshot.spaces import Box, Discrete, Space, flat_batch
from tests.policies.spaces import ACTIONS, OBSERVATIONS, batch

SMALL = {"actor": {"type": "mlp", "hidden": [8]}, "critic": {"type": "mlp", "hidden": [8]}}


def require_export(made: Policy, space: Space) -> None:
    graph = made.graph().eval().requires_grad_(requires_grad=False)

    def tensors(n: int) -> tuple[torch.Tensor, ...]:
        arrays = flat_batch(space, batch(space, n, seed=n), "obs")
        return tuple(torch.from_numpy(np.ascontiguousarray(arrays[name])) for name in graph.input_names)

    sizes = ({0: Dim("batch", min=1, max=65536)},) * len(graph.input_names)
    with torch.no_grad():
        program = torch.export.export(graph, tensors(2), dynamic_shapes=(sizes,)).module()
    for n in (1, 2, 7, 33):
        found = program(*tensors(n)).numpy()
        assert len(found) == n
        np.testing.assert_allclose(found, made.compute_actions(batch(space, n, seed=n)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_every_observation_space_exports(name: str) -> None:
    space = OBSERVATIONS[name]
    require_export(PolicySpec.default(PPOModule, space, Discrete(3), model_config=SMALL).build(), space)


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_space_exports(name: str) -> None:
    space = OBSERVATIONS["row"]
    require_export(PolicySpec.default(PPOModule, space, ACTIONS[name], model_config=SMALL).build(), space)


@pytest.mark.parametrize("name", ["box_matrix", "discrete", "multi_discrete_matrix", "multi_binary", "box_scalar"])
def test_every_action_that_a_module_gives_itself_exports(name: str) -> None:
    space = ACTIONS[name]
    module = RLModuleSpec(PPOModule, OBSERVATIONS["row"], Box.uniform(-5, 5, space.shape), model_config=SMALL)  # type: ignore[attr-defined]
    spec = PolicySpec(module, OBSERVATIONS["row"], space, (), default_action_stages(space, "action"))
    require_export(spec.build(), OBSERVATIONS["row"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normalisation_exports(dtype: type[np.floating]) -> None:
    space = Box.uniform(-np.inf, np.inf, (2, 3), dtype)
    stages = (Normalize("var_eps", 1e-8, 10.0), Flatten())
    module = RLModuleSpec(PPOModule, prepared_space(space, stages), Discrete(3), model_config=SMALL)
    spec = PolicySpec(module, space, Discrete(3), stages, (Argmax(),))
    statistics = {"normalize": {"mean": np.arange(6.0).reshape(2, 3), "var": np.full((2, 3), 2.0)}}
    require_export(Policy(spec, spec.module.build(), statistics=statistics), space)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_large_mean_keeps_its_digits_outside_torch() -> None:
    """The two parts of the mean have to survive the optimisers of other runtimes: their sum would lose the low one."""
    onnxruntime = pytest.importorskip("onnxruntime")
    space = Box.uniform(-np.inf, np.inf, (64,))
    stages = (Normalize("var_eps", 1e-8, None),)
    centre = 1000 + np.random.default_rng(0).normal(size=64)
    module = RLModuleSpec(
        PPOModule, prepared_space(space, stages), Box.uniform(-np.inf, np.inf, (64,)), model_config=SMALL
    )
    spec = PolicySpec(module, space, module.action_space, stages, ())
    made = Policy(spec, spec.module.build(), statistics={"normalize": {"mean": centre, "var": np.full(64, 0.01)}})
    normalise = made.graph().observation.eval()
    x = (centre + np.random.default_rng(1).uniform(-0.5, 0.5, (33, 64))).astype(np.float32)
    batch_first = ({0: Dim("batch", min=1, max=65536)},)
    program = torch.onnx.export(
        normalise,
        (torch.from_numpy(x[:2]),),
        input_names=["obs"],
        dynamic_shapes=batch_first,
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    found = session.run(None, {"obs": x})[0]
    np.testing.assert_allclose(found, (x.astype(np.float64) - centre) / np.sqrt(0.01 + 1e-8), atol=1e-6)


def test_a_graph_follows_its_module_to_another_type_of_number() -> None:
    made = PolicySpec.default(PPOModule, OBSERVATIONS["discrete"], Discrete(3), model_config=SMALL).build()
    spec = PolicySpec(
        RLModuleSpec(PPOModule, Box.uniform(0, 1, (4,), np.float64), Discrete(3), model_config=SMALL),
        OBSERVATIONS["discrete"],
        Discrete(3),
        (*made.spec.observation, Cast("float64")),
        (Argmax(),),
    )
    module = spec.module.build().double()
    assert Policy(spec, module).scores(np.array([-2, 1])).dtype == np.float64
