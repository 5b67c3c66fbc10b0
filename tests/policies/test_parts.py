"""Actions and observations of several parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

from rlpipe.errors import SpecError
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.policies.stages import Parts
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, flat_batch
from tests.policies.spaces import batch

PPO = "rlpipe.modules.torch.ppo.PPOModule"
ROW = Box.uniform(-np.inf, np.inf, (4,))
ARM = Dict({"grip": Discrete(2, start=1), "joints": Box.uniform(-0.1, 0.1, (2, 2), np.float64)})
ACTIONS: dict[str, Space] = {
    "dict": ARM,
    "tuple": Tuple((MultiDiscrete(np.array([3, 2])), MultiBinary((3,)), Box.uniform(-2, 2, ()))),
    "nested": Dict({"arm": ARM, "wheels": Tuple((Box.uniform(0, 1, (2,)), Discrete(4)))}),
    "many": Tuple(tuple(Discrete(index + 1) for index in range(12))),
}
CAMERA = Dict(
    {
        "camera": Box.uniform(0, 255, (12, 10, 3), np.uint8),
        "mode": Discrete(3),
        "pose": Dict({"q": Box.uniform(-1, 1, (2,), np.float64), "v": Box.uniform(-1, 1, (1,))}),
    }
)
TINY_CNN = {"type": "cnn", "filters": [[4, 3, 2]], "hidden": [5]}
MULTI = {"type": "multi", "image": TINY_CNN, "encoders": {"pose": {"type": "mlp", "hidden": [6]}}}
SMALL = {"type": "mlp", "hidden": [7]}


def policy(observations: Space, actions: Space, **config: Any) -> Policy:
    torch.manual_seed(0)
    made = PolicySpec.default(PPO, observations, actions, model_config=config).build()
    with torch.no_grad():
        for parameter in made.module.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return made


def require_export(made: Policy) -> None:
    graph = made.graph().eval().requires_grad_(requires_grad=False)
    space = made.spec.observation_space

    def named(n: int) -> dict[str, Any]:
        arrays = flat_batch(space, batch(space, n, seed=n), "obs")
        memory = {port.name: np.zeros((n, *port.shape), port.dtype) for port in made.memory}
        return {**arrays, **memory, **({"episode_start": np.ones(n, bool)} if memory else {})}

    def tensors(n: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.from_numpy(np.ascontiguousarray(named(n)[name])) for name in graph.input_names)

    sizes = ({0: Dim("batch", min=1, max=65536)},) * len(graph.input_names)
    with torch.no_grad():
        program = torch.export.export(graph, tensors(2), dynamic_shapes=(sizes,)).module()
    for n in (1, 2, 7, 33):
        found = program(*tensors(n))
        found = (found,) if isinstance(found, torch.Tensor) else found
        expected = made.answers(named(n))
        for name, tensor in zip(graph.output_names, found, strict=True):
            np.testing.assert_allclose(tensor.numpy(), expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("squash", [False, True])
def test_every_leaf_gets_its_own_action(name: str, squash: bool) -> None:
    space = ACTIONS[name]
    made = policy(ROW, space, actor=SMALL, critic=SMALL, squash=squash)
    x = batch(ROW, 9)
    assert space.contains(made.compute_actions(x))
    single = made.compute_actions(x[0])
    together = made.compute_actions(x)
    for key, array in flat_batch(space, together, "action").items():
        np.testing.assert_allclose(flat_batch(space, single, "action")[key], array[0], atol=1e-6)
    require_export(made)
    assert PolicySpec.from_spec(made.spec.to_spec()).to_json() == made.spec.to_json()


def test_leaves_are_cut_from_the_row_in_flat_order() -> None:
    made = policy(ROW, ACTIONS["nested"], actor=SMALL)
    assert made.graph().output_names == (
        "action.arm.grip",
        "action.arm.joints",
        "action.wheels.0",
        "action.wheels.1",
    )
    x = batch(ROW, 5)
    row = made.scores(x)
    actions = made.compute_actions(x)
    np.testing.assert_array_equal(actions["arm"]["grip"], row[:, :2].argmax(1) + 1)
    np.testing.assert_allclose(actions["arm"]["joints"], np.clip(row[:, 2:6].reshape(5, 2, 2), -0.1, 0.1), atol=1e-7)
    np.testing.assert_allclose(actions["wheels"][0], np.clip(row[:, 6:8], 0, 1))
    np.testing.assert_array_equal(actions["wheels"][1], row[:, 8:].argmax(1))
    ordered = np.sort(row[:, 8:], axis=1)
    grip = np.abs(row[:, 0] - row[:, 1])
    np.testing.assert_allclose(made.margins(x), np.minimum(grip, ordered[:, -1] - ordered[:, -2]), atol=1e-6)


def test_more_than_ten_parts_keep_their_order() -> None:
    made = policy(ROW, ACTIONS["many"], actor=SMALL)
    (stage,) = made.spec.action
    assert isinstance(stage, Parts)
    assert stage.keys == tuple(map(str, range(12)))
    assert stage.widths == tuple(range(1, 13))


@pytest.mark.parametrize(
    "stage",
    [
        lambda: Parts(("a",), (1, 2), {"a": ()}),
        lambda: Parts(("a",), (1,), {"b": ()}),
        lambda: PolicySpec.default(PPO, ROW, ARM, action_mask=""),
    ],
)
def test_uneven_parts_and_masks_of_parts_are_refused(stage: Any) -> None:
    with pytest.raises(SpecError):
        stage()


def test_an_encoder_for_each_part_of_the_observation() -> None:
    made = policy(CAMERA, Discrete(3), shared=MULTI, actor=SMALL, critic=SMALL)
    assert made.module.observation_space.describe().startswith("Dict(camera: Box(0..1, (3, 12, 10), float32)")
    keys = [name for name in made.module.state_dict() if name.startswith("encoder.encoder.")]
    assert keys == [
        *(f"encoder.encoder.parts.0.{layer}.{name}" for layer in (0, 3) for name in ("weight", "bias")),
        *(f"encoder.encoder.parts.2.0.{name}" for name in ("weight", "bias")),
    ]
    observations = batch(CAMERA, 4)
    scores = made.scores(observations)
    state = {name: value.double().numpy() for name, value in made.module.state_dict().items()}
    pixels = observations["camera"].transpose(0, 3, 1, 2).astype(np.float64) / 255
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    conv = np.einsum("bchwij,ocij->bohw", windows, state["encoder.encoder.parts.0.0.weight"])
    conv = np.maximum(conv + state["encoder.encoder.parts.0.0.bias"][:, None, None], 0).reshape(4, -1)
    seen = np.maximum(conv @ state["encoder.encoder.parts.0.3.weight"].T + state["encoder.encoder.parts.0.3.bias"], 0)
    mode = np.eye(3)[observations["mode"]]
    pose = np.concatenate([observations["pose"]["q"], observations["pose"]["v"]], axis=1)
    felt = np.tanh(pose @ state["encoder.encoder.parts.2.0.weight"].T + state["encoder.encoder.parts.2.0.bias"])
    features = np.concatenate([seen, mode, felt], axis=1)
    hidden = np.tanh(features @ state["encoder.actor_encoder.0.weight"].T + state["encoder.actor_encoder.0.bias"])
    expected = hidden @ state["pi.logits.weight"].T + state["pi.logits.bias"]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    require_export(made)


def test_a_memory_behind_several_encoders() -> None:
    made = policy(CAMERA, ARM, shared={"type": "lstm", "hidden_size": 4, "before": MULTI}, actor=SMALL, critic=SMALL)
    assert [port.memory for port in made.memory] == ["shared/c", "shared/h"]
    require_export(made)
    step = made.step(batch(CAMERA, 3))
    assert ARM.contains(step.actions)


@pytest.mark.parametrize("kind", ["dqn.DQNModule", "sac.SACModule"])
def test_the_other_families_take_parts_too(kind: str) -> None:
    actions: Space = Discrete(3) if kind.startswith("dqn") else Box.uniform(-1, 1, (2,))
    config = {"encoder": MULTI} if kind.startswith("dqn") else {"actor": MULTI, "critic": MULTI}
    made = PolicySpec.default(f"rlpipe.modules.torch.{kind}", CAMERA, actions, model_config=config).build()
    assert actions.contains(made.compute_actions(batch(CAMERA, 3)))
    require_export(made)


@pytest.mark.parametrize(
    ("observations", "config", "named"),
    [
        (ROW, MULTI, "takes observations with parts"),
        (CAMERA, {**MULTI, "encoders": {"pos": SMALL}}, "names parts that are not there"),
        (CAMERA, {**MULTI, "encoders": [SMALL]}, "a mapping of keys"),
        (CAMERA, {**MULTI, "image": SMALL, "vector": TINY_CNN}, "takes images"),
    ],
)
def test_encoders_that_do_not_fit_say_what_would(observations: Space, config: Any, named: str) -> None:
    with pytest.raises(SpecError) as caught:
        policy(observations, Discrete(2), shared=config)
    assert named in str(caught.value)


def test_in_one_row_where_no_encoder_asks_for_parts() -> None:
    assert policy(CAMERA, Discrete(3), actor=SMALL).module.observation_space.shape == (366,)  # type: ignore[attr-defined]
