"""Policies that remember."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim

from rlpipe.errors import ObservationError, SpecError
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.policies.stages import Clip, FrameStack, Normalize, default_action_stages, prepared_space
from rlpipe.snapshot.spaces import Box, Dict, Discrete, Space
from tests.modules import networks

PPO = "rlpipe.modules.torch.ppo.PPOModule"
ROW = Box.uniform(-np.inf, np.inf, (3,))
LSTM = {"type": "lstm", "hidden_size": 4, "num_layers": 2, "before": {"type": "mlp", "hidden": [5]}}
GRU = {"type": "gru", "hidden_size": 4}
TORSO = {"actor": LSTM, "critic": GRU}
BOUNDED = Box.uniform(-1, 1, (2,))


def policy(config: Any = None, actions: Space = BOUNDED, observations: Space = ROW) -> Policy:
    torch.manual_seed(0)
    made = PolicySpec.default(PPO, observations, actions, model_config=config or TORSO).build()
    with torch.no_grad():
        for parameter in made.module.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return made


def rows(steps: int, n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    made: np.ndarray[Any, Any] = np.random.default_rng(seed).normal(size=(steps, n, 3)).astype(np.float32)
    return made


def test_names_and_shapes_of_a_step() -> None:
    made = policy()
    graph = made.graph()
    assert graph.input_names == ("obs", "state.0", "state.1", "episode_start")
    assert graph.output_names == ("action", "state.0.next", "state.1.next")
    assert [(port.name, port.memory, port.shape, port.dtype) for port in made.memory] == [
        ("state.0", "actor/c", (2, 4), "float32"),
        ("state.1", "actor/h", (2, 4), "float32"),
    ]
    actions, state = made.step(rows(1, 5)[0])
    assert actions.shape == (5, 2)
    assert {name: array.shape for name, array in state.items()} == {"state.0": (5, 2, 4), "state.1": (5, 2, 4)}


def test_a_policy_acts_as_its_module_over_a_sequence() -> None:
    made = policy({"actor": LSTM, "critic": GRU})
    x, starts = rows(6, 4), np.random.default_rng(1).random((6, 4)) < 0.3
    starts[0] = True
    batch = {"obs": torch.from_numpy(x.transpose(1, 0, 2).copy()), "episode_start": torch.from_numpy(starts.T.copy())}
    expected = made.module.forward_train(batch)["mean"].detach().numpy().transpose(1, 0, 2)
    state = None
    for step in range(6):
        found = made.step(x[step], state, episode_start=starts[step])
        state = found.state
        np.testing.assert_allclose(found.actions, np.clip(expected[step], -1, 1), atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), garbage=st.sampled_from([np.nan, np.inf, 1e30, 3.0]))
def test_an_episode_that_begins_forgets_whatever_the_state_holds(seed: int, garbage: float) -> None:
    made = policy()
    x = rows(1, 3, seed)[0]
    fresh = made.step(x)
    _, used = made.step(rows(1, 3, seed + 1)[0])
    for state in (used, {name: np.full_like(array, garbage) for name, array in used.items()}):
        again = made.step(x, state, episode_start=np.ones(3, bool))
        np.testing.assert_array_equal(again.actions, fresh.actions)
        for name in fresh.state:
            np.testing.assert_array_equal(again.state[name], fresh.state[name])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), n=st.integers(1, 5))
def test_rows_do_not_know_of_each_other(seed: int, n: int) -> None:
    made = policy()
    x, starts = rows(3, n, seed), np.random.default_rng(seed).random((3, n)) < 0.5
    state: Any = None
    alone: list[Any] = [None] * n
    for step in range(3):
        together = made.step(x[step], state, episode_start=starts[step] if step else None)
        state = together.state
        for row in range(n):
            begins = starts[step, row : row + 1] if step else None
            one = made.step(x[step, row : row + 1], alone[row], episode_start=begins)
            alone[row] = one.state
            np.testing.assert_allclose(one.actions[0], together.actions[row], atol=1e-6)


def test_acting_without_the_state_names_step() -> None:
    made = policy()
    with pytest.raises(SpecError, match="remembers") as caught:
        made.compute_actions(rows(1, 2)[0])
    assert "policy.step" in caught.value.fix
    _, state = made.step(rows(1, 2)[0])
    np.testing.assert_array_equal(
        made.compute_actions(rows(1, 2)[0], state=state), made.step(rows(1, 2)[0], state).actions
    )


def test_a_single_observation_keeps_a_batch_of_one_in_its_state() -> None:
    made = policy()
    first = made.step(rows(1, 1)[0, 0])
    assert first.actions.shape == (2,)
    second = made.step(rows(1, 1)[0, 0], first.state, episode_start=np.zeros((), bool))
    assert second.state["state.0"].shape == (1, 2, 4)


@pytest.mark.parametrize(
    ("aside", "named", "fix"),
    [
        ({"state": {}}, "no state of the policy", "state=None"),
        ({"state": {"state.0": np.zeros((2, 2, 4), np.float32)}}, "no state of the policy", "state=None"),
        ({"state": {f"state.{i}": np.zeros((2, 2, 4)) for i in range(2)}}, "float32", "state=None"),
        (
            {"state": {f"state.{i}": np.zeros((3, 2, 4), np.float32) for i in range(2)}},
            "state.0 does not fit",
            "state=None",
        ),
        ({"episode_start": np.zeros(3, bool)}, "episode_start does not fit", "(B,) bool"),
        ({"episode_start": np.zeros(2)}, "bool", "(B,) bool"),
        ({"action_mask": np.ones((2, 2), bool)}, "does not use action_mask", "leave action_mask out"),
    ],
)
def test_what_does_not_fit_is_refused(aside: dict[str, Any], named: str, fix: str) -> None:
    with pytest.raises(ObservationError) as caught:
        policy().step(rows(1, 2)[0], **aside)
    assert named in str(caught.value)
    assert fix in caught.value.fix


def test_a_policy_without_memory_takes_none_and_gives_none() -> None:
    made = policy({"actor": {"type": "mlp", "hidden": [4]}})
    step = made.step(rows(1, 2)[0], {})
    assert step.state == {}
    np.testing.assert_array_equal(step.actions, made.compute_actions(rows(1, 2)[0]))
    with pytest.raises(ObservationError, match="does not use episode_start"):
        made.step(rows(1, 2)[0], episode_start=np.ones(2, bool))


def require_export(made: Policy, sequence: list[dict[str, Any]]) -> None:
    """Over a sequence the traced graph gives what the policy gives."""
    graph = made.graph().eval().requires_grad_(requires_grad=False)
    inputs = made.step(sequence[0]["obs"][:2]).state
    observations = {"obs": sequence[0]["obs"][:2]}
    named = {**observations, **inputs, "episode_start": np.zeros(2, bool)}
    sample = [torch.from_numpy(named[name]) for name in graph.input_names]
    sizes = ({0: Dim("batch", min=1, max=65536)},) * len(graph.input_names)
    with torch.no_grad():
        program = torch.export.export(graph, tuple(sample), dynamic_shapes=(sizes,)).module()
    state = made.step(sequence[0]["obs"]).state
    theirs = {name: np.full_like(array, 7 if array.dtype.kind == "i" else np.nan) for name, array in state.items()}
    ours: Any = None
    for step in sequence:
        named = {"obs": step["obs"], **theirs, "episode_start": step["start"]}
        outputs = program(*(torch.from_numpy(named[name]) for name in graph.input_names))
        found = {name: tensor.numpy() for name, tensor in zip(graph.output_names, outputs, strict=True)}
        expected = made.step(step["obs"], ours, episode_start=step["start"])
        ours = expected.state
        theirs = {name: found[f"{name}.next"] for name in theirs}
        np.testing.assert_allclose(found["action"], expected.actions, atol=1e-5)


@pytest.mark.parametrize(
    "config",
    [TORSO, {"shared": GRU}, {"shared": {**LSTM, "before": None}, "actor": GRU}],
    ids=["actor", "shared", "both"],
)
@pytest.mark.parametrize("actions", [BOUNDED, Discrete(3)], ids=["box", "discrete"])
def test_it_exports_with_a_symbolic_batch(config: Any, actions: Space) -> None:
    starts = np.random.default_rng(0).random((9, 5)) < 0.2
    starts[0] = True
    x = rows(9, 5)
    require_export(policy(config, actions), [{"obs": x[i], "start": starts[i]} for i in range(9)])


@pytest.mark.parametrize("backend", ["hdf5", "pickle"])
def test_it_comes_back_whole_and_slim(backend: str, tmp_path: Path) -> None:
    made = policy()
    path = made.save_to_path(tmp_path / "policy", backend=backend)
    x = rows(4, 3)
    slim_spec = made.spec.with_inference_only(inference_only=True)
    slim = Policy.from_state(made.get_state(inference_only=True), slim_spec)
    for other in (Policy.from_checkpoint(path), slim):
        ours = theirs = None
        for step in range(4):
            one, two = made.step(x[step], ours), other.step(x[step], theirs)  # type: ignore[union-attr]
            ours, theirs = one.state, two.state
            np.testing.assert_array_equal(one.actions, two.actions)


class Counting(RLModule):
    """A user's own module: remembers a learnt start and how often it was asked."""

    def setup(self) -> None:
        self.cell = nn.LSTMCell(3, 4)
        self.start = nn.Parameter(torch.full((4,), 0.5))
        self.pi = nn.Linear(4, 2)

    def get_initial_state(self) -> dict[str, Any]:
        return {"steps": np.zeros((), np.int64), "h": self.start, "c": torch.zeros(4)}

    def forward_inference(self, batch: Any) -> dict[str, Any]:
        state = batch["state_in"]
        h, c = self.cell(batch["obs"], (state["h"], state["c"]))
        logits = self.pi(h) + state["steps"].unsqueeze(1)
        return {"mean": logits, "state_out": {"h": h, "c": c, "steps": state["steps"] + 1}}


def counting() -> Policy:
    free = Box.uniform(-np.inf, np.inf, (2,))
    return PolicySpec.default(Counting, ROW, free, trust=("tests.*",)).build(trust=("tests.*",))


def test_a_users_own_module_may_remember_whole_numbers_and_begin_where_it_has_learnt_to() -> None:
    made = counting()
    assert [(port.memory, port.shape, port.dtype) for port in made.memory] == [
        ("c", (4,), "float32"),
        ("h", (4,), "float32"),
        ("steps", (), "int64"),
    ]
    x = rows(1, 2)[0]
    first = made.step(x)
    assert first.state["state.2"].tolist() == [1, 1]
    with torch.no_grad():
        made.module.get_parameter("start").fill_(-2.0)
    other = made.step(x, first.state, episode_start=np.ones(2, bool))
    assert not np.allclose(other.actions, first.actions)
    expected = made.module.forward_inference(
        {
            "obs": torch.from_numpy(x),
            "state_in": {"h": torch.full((2, 4), -2.0), "c": torch.zeros(2, 4), "steps": torch.zeros(2)},
        }
    )
    np.testing.assert_allclose(other.actions, expected["mean"].detach().numpy(), atol=1e-6)
    require_export(made, [{"obs": rows(1, 2, i)[0], "start": np.array([i == 0, i in (0, 2)])} for i in range(4)])


class Net(nn.Module):
    """A user's own network around torch's own LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True)
        self.head = nn.Linear(4, 2)

    def get_initial_state(self) -> dict[str, torch.Tensor]:
        return {"h": torch.zeros(2, 4), "c": torch.zeros(2, 4)}

    def forward(self, obs: torch.Tensor, state: dict[str, torch.Tensor]) -> Any:
        h, c = (state[name].transpose(0, 1).contiguous() for name in ("h", "c"))
        out, (h, c) = self.lstm(obs.unsqueeze(1), (h, c))
        return self.head(out[:, 0]), {"h": h.transpose(0, 1), "c": c.transpose(0, 1)}


class Forgetful(Net):
    """Keeps its memory for itself."""

    def forward(self, obs: torch.Tensor, state: dict[str, torch.Tensor]) -> Any:
        return super().forward(obs, state)[0]


def torch_module(kind: type[nn.Module]) -> Policy:
    config = {"class": kind, "output": "logits"}
    path = "rlpipe.modules.torch.torch_module.TorchModule"
    return PolicySpec.default(path, ROW, Discrete(2), model_config=config, trust=("tests.*",)).build(trust=("tests.*",))


@pytest.mark.filterwarnings("ignore:The tensor attributes .*_flat_weights:UserWarning")
def test_a_plain_torch_network_may_remember(tmp_path: Path) -> None:
    made = torch_module(Net)
    net: Any = made.module.get_submodule("net")
    x = rows(5, 3)
    expected = net.head(net.lstm(torch.from_numpy(x.transpose(1, 0, 2).copy()))[0]).argmax(dim=2).numpy().T
    state = None
    for step in range(5):
        actions, state = made.step(x[step], state)
        np.testing.assert_array_equal(actions, expected[step])
    require_export(made, [{"obs": x[i], "start": np.full(3, i == 0)} for i in range(5)])
    path = made.save_to_path(tmp_path / "policy")
    again = Policy.from_checkpoint(path, trust=("tests.*",))
    np.testing.assert_array_equal(again.step(x[0], state).actions, made.step(x[0], state).actions)  # type: ignore[union-attr]


def test_a_network_that_gives_no_memory_back_is_named() -> None:
    with pytest.raises(SpecError, match="Forgetful has a get_initial_state"):
        torch_module(Forgetful).step(rows(1, 2)[0])


def test_remembering_of_the_other_tests_acts() -> None:
    made = PolicySpec.default(networks.Remembering, ROW, Discrete(2), trust=("tests.*",)).build(trust=("tests.*",))
    assert made.step(rows(1, 2)[0]).state["state.0"].shape == (2, 4)


class Nested(RLModule):
    """Its memory is nested, as RLlib allows."""

    def setup(self) -> None:
        self.pi = nn.Linear(3, 2)

    def get_initial_state(self) -> dict[str, Any]:
        return {"actor": {"h": torch.zeros(3)}}

    def forward_inference(self, batch: Any) -> dict[str, Any]:
        return {"mean": self.pi(batch["obs"])}


def test_a_nested_memory_says_how_to_flatten_it() -> None:
    with pytest.raises(SpecError, match="holds no arrays") as caught:
        RLModuleSpec(Nested, ROW, BOUNDED).build(trust=("tests.*",))
    assert "actor/h" in caught.value.fix


class Unsteady(Nested):
    """Gives another memory back."""

    def get_initial_state(self) -> dict[str, Any]:
        return {"h": torch.zeros(3)}

    def forward_inference(self, batch: Any) -> dict[str, Any]:
        return {"mean": self.pi(batch["obs"]), "state_out": {"k": batch["obs"]}}


def test_another_memory_is_named() -> None:
    made = PolicySpec.default(Unsteady, ROW, BOUNDED, trust=("tests.*",)).build(trust=("tests.*",))
    with pytest.raises(SpecError, match="another memory") as caught:
        made.step(rows(1, 2)[0])
    assert (caught.value.expected, caught.value.found) == ("state_out with h", "k")


def stacked(fill: str, axis: int | None, *inner: Any) -> Policy:
    stages = (*inner, FrameStack(3, fill, axis))
    space = prepared_space(ROW, stages)
    free = Box.uniform(-np.inf, np.inf, space.shape)  # type: ignore[attr-defined]
    module = RLModuleSpec(networks.Echo, space, free)
    action = () if len(free.shape) == 1 else default_action_stages(free, "mean")
    return PolicySpec(module, ROW, free, stages, action).build(trust=("tests.*",))


@pytest.mark.parametrize("axis", [0, None])
@pytest.mark.parametrize("fill", ["first", "zeros"])
def test_a_stack_of_frames_is_filled_as_it_says(fill: str, axis: int | None) -> None:
    made = stacked(fill, axis)
    x = rows(5, 2)
    starts = np.array([[True, True], [False, False], [False, True], [False, False], [False, False]])
    history: list[list[Any]] = [[], []]
    state = None
    for step in range(5):
        actions, state = made.step(x[step], state, episode_start=starts[step])
        for row in range(2):
            if starts[step, row]:
                empty = x[step, row] if fill == "first" else np.zeros(3, np.float32)
                history[row] = [empty] * 2
            history[row] = [*history[row][-2:], x[step, row]]
            expected = np.concatenate(history[row]) if axis == 0 else np.stack(history[row])
            np.testing.assert_array_equal(actions[row], expected)
    require_export(made, [{"obs": x[i], "start": starts[i]} for i in range(5)])


def test_frames_are_stacked_after_normalising_and_before_a_memory() -> None:
    stages = (
        Normalize("var_eps", 1e-8, None),
        FrameStack(2),
    )
    module = RLModuleSpec(PPO, prepared_space(ROW, stages), BOUNDED, model_config=TORSO)
    spec = PolicySpec(module, ROW, BOUNDED, stages, (Clip(-1.0, 1.0),))
    made = Policy(spec, spec.module.build(), statistics={"normalize": {"mean": np.ones(3), "var": np.full(3, 4.0)}})
    assert [(port.name, port.memory) for port in made.memory] == [
        ("state.0", ""),
        ("state.1", "actor/c"),
        ("state.2", "actor/h"),
    ]
    x = rows(1, 2)[0]
    np.testing.assert_allclose(made.step(x).state["state.0"][:, 0], (x - 1) / 2, atol=1e-6)
    require_export(made, [{"obs": rows(1, 2, i)[0], "start": np.array([i == 0, i in (0, 2)])} for i in range(4)])


def test_frames_of_parts() -> None:
    space = Dict({"a": Box.uniform(-1, 1, (2,)), "b": Box.uniform(-1, 1, (1,))})
    from rlpipe.policies.stages import Concat, PerKey

    stages = (PerKey({"a": (FrameStack(2),), "b": (FrameStack(3, "zeros"),)}), Concat(("a", "b")))
    prepared = prepared_space(space, stages)
    free = Box.uniform(-np.inf, np.inf, prepared.shape)  # type: ignore[attr-defined]
    made = PolicySpec(RLModuleSpec(networks.Echo, prepared, free), space, free, stages, ()).build(trust=("tests.*",))
    assert [port.shape for port in made.memory] == [(1, 2), (2, 1)]
    first = made.step({"a": np.full((1, 2), 0.5, np.float32), "b": np.full((1, 1), 0.25, np.float32)})
    np.testing.assert_array_equal(first.actions, [[0.5, 0.5, 0.5, 0.5, 0, 0, 0.25]])
    second = made.step({"a": np.zeros((1, 2), np.float32), "b": np.ones((1, 1), np.float32)}, first.state)
    np.testing.assert_array_equal(second.actions, [[0.5, 0.5, 0, 0, 0, 0.25, 1]])
