from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from rlpipe.checkpoint.restore import build, snapshot_of
from rlpipe.errors import NormalizerError, ObservationError, SpecError, StateMismatchError
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.modules.torch.sac import SACModule
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.policies.stages import Argmax, Cast, Concat, Normalize, PerKey, Stage, prepared_space
from rlpipe.snapshot import fingerprint
from rlpipe.snapshot.spaces import Box, Dict, Discrete, Leaf, MultiBinary, Space, flat_batch
from rlpipe.snapshot.state import equal
from tests.modules import networks, stray
from tests.policies.spaces import ACTIONS, OBSERVATIONS, batch

ROW = OBSERVATIONS["row"]
SMALL = {"actor": {"type": "mlp", "hidden": [8]}, "critic": {"type": "mlp", "hidden": [8]}}
NORMALIZE = Normalize("var_eps", 1e-8, 10.0)


def policy(observations: Space = ROW, actions: Space = Discrete(3), **options: Any) -> Policy:
    torch.manual_seed(0)
    return PolicySpec.default(PPOModule, observations, actions, model_config=SMALL, **options).build()


def normalised(*, metadata: dict[str, Any] | None = None) -> Policy:
    stages = (NORMALIZE,)
    module = RLModuleSpec(PPOModule, prepared_space(ROW, stages), Discrete(3), model_config=SMALL)
    spec = PolicySpec(module, ROW, Discrete(3), stages, (Argmax(),))
    found = {"normalize": {"mean": np.array([1.0, 2, 3, 4]), "var": np.array([1.0, 4, 9, 16])}}
    return Policy(spec, spec.module.build(), statistics=found, metadata=metadata)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_any_observation_is_taken_as_a_batch_and_alone(name: str) -> None:
    space = OBSERVATIONS[name]
    made = policy(space)
    observations = batch(space)
    actions = made.compute_actions(observations)
    assert actions.shape == (6,)
    assert actions.dtype == np.int64
    alone = [made.compute_actions(_row(observations, index)) for index in range(6)]
    assert [np.shape(action) for action in alone] == [()] * 6
    np.testing.assert_array_equal(alone, actions)


def _row(value: Any, index: int) -> Any:
    if isinstance(value, dict):
        return {key: _row(part, index) for key, part in value.items()}
    return tuple(_row(part, index) for part in value) if isinstance(value, tuple) else value[index]


@pytest.mark.parametrize("name", ACTIONS)
def test_any_action_is_one_that_the_environment_takes(name: str) -> None:
    space = ACTIONS[name]
    assert isinstance(space, Leaf)
    made = policy(actions=space)
    with torch.no_grad():
        for parameter in made.module.parameters():
            parameter.mul_(50)
    actions = made.compute_actions(batch(ROW, 40))
    assert actions.shape == (40, *space.shape)
    assert actions.dtype == space.dtype
    assert space.contains(actions)
    assert np.asarray(made.compute_actions(batch(ROW)[0])).shape == space.shape


def test_squashed_actions_fill_their_range() -> None:
    space = Box(np.array([-1.0, 0.5]), np.array([3.0, 0.75]), np.dtype(np.float64))
    made = PolicySpec.default(SACModule, ROW, space).build()
    with torch.no_grad():
        made.module.get_parameter("pi.mean.weight").mul_(1e3)
    actions = made.compute_actions(batch(ROW, 200))
    assert space.contains(actions)
    np.testing.assert_allclose(actions.min(0), space.low, atol=1e-6)
    np.testing.assert_allclose(actions.max(0), space.high, atol=1e-6)


def test_an_empty_batch_gives_no_actions() -> None:
    assert policy().compute_actions(np.zeros((0, 4), np.float32)).shape == (0,)


def test_wider_floats_and_lists_are_cast() -> None:
    made = policy()
    wide = batch(ROW).astype(np.float64)
    np.testing.assert_array_equal(made.compute_actions(wide), made.compute_actions(wide.astype(np.float32)))
    np.testing.assert_array_equal(made.compute_actions(wide.tolist()), made.compute_actions(wide))


@pytest.mark.parametrize(
    ("space", "given", "named"),
    [
        ("row", np.zeros((2, 5)), "(2, 5)"),
        ("row", np.zeros(5), "(5,)"),
        ("row", np.zeros((2, 2, 4)), "(2, 2, 4)"),
        ("row", np.float32(0), "()"),
        ("row", np.array([["a"] * 4]), "<U1"),
        ("row", np.full((2, 4), None), "object"),
        ("row", np.array([[0, 0, 0, np.nan]]), "1 NaN"),
        ("row", np.zeros((2, 4), np.complex64), "complex64"),
        ("row", [[0, 0, 0, 0], [0]], "inhomogeneous"),
        ("hwc", np.zeros((2, 12, 10, 3)), "float64"),
        ("hwc", np.full((2, 12, 10, 3), 256), "cannot hold"),
        ("hwc", np.zeros((2, 3, 12, 10), np.uint8), "(2, 3, 12, 10)"),
        ("discrete", np.array([0.0, 1.0]), "float64"),
        ("discrete", np.array([-2, 2]), "from -2 to 2"),
        ("multi_binary", np.full((2, 2, 3), 2), "from 2 to 2"),
        ("dict", {"a": np.array([0])}, "a"),
        ("dict", np.zeros((2, 4)), "ndarray"),
        ("tuple", (np.zeros((3, 2), np.int8), np.zeros((2, 2))), "(3, 2)"),
    ],
)
def test_an_observation_that_does_not_fit_says_what_would(space: str, given: Any, named: str) -> None:
    made = policy(OBSERVATIONS[space])
    with pytest.raises(ObservationError) as caught:
        made.compute_actions(given)
    assert named in caught.value.found
    assert caught.value.expected


def test_all_findings_are_in_one_error() -> None:
    given = {**batch(OBSERVATIONS["dict"]), "a": np.array([9] * 6), "b": np.full((6, 2), np.nan)}
    with pytest.raises(ObservationError) as caught:
        policy(OBSERVATIONS["dict"]).compute_actions(given)
    assert "obs.a has values" in caught.value.found
    assert "obs.b has 12 NaN" in caught.value.found


def test_acting_leaves_modes_and_observations_alone() -> None:
    made = PolicySpec.default(networks.Noisy, Box.uniform(-1, 1, (3,)), Discrete(2)).build()
    made.module.get_submodule("pi.1").eval()
    modes = [part.training for part in made.module.modules()]
    observations = batch(Box.uniform(-1, 1, (3,)))
    before = observations.copy()
    made.compute_actions(observations)
    assert [part.training for part in made.module.modules()] == modes
    np.testing.assert_array_equal(observations, before)
    assert made.module.get_buffer("pi.2.num_batches_tracked") == 0


def test_scores_and_margins_tell_ties() -> None:
    made = policy()
    observations = batch(ROW)
    scores = made.scores(observations)
    np.testing.assert_array_equal(scores.argmax(1), made.compute_actions(observations))
    ordered = np.sort(scores, 1)
    np.testing.assert_allclose(made.margins(observations), ordered[:, -1] - ordered[:, -2])
    assert np.isinf(policy(actions=ACTIONS["box_matrix"]).margins(observations)).all()
    several = policy(actions=ACTIONS["multi_discrete"])
    blocks = [np.sort(block, 1) for block in np.split(several.scores(observations), [3], axis=1)]
    expected = np.min([block[:, -1] - block[:, -2] for block in blocks], axis=0)
    np.testing.assert_allclose(several.margins(observations), expected)
    switches = policy(actions=ACTIONS["multi_binary"])
    np.testing.assert_allclose(switches.margins(observations), np.abs(switches.scores(observations)).min(1))


def test_statistics_are_applied_and_are_float64_in_the_state() -> None:
    made = normalised()
    plain = Policy(
        replace(made.spec, observation=(), module=replace(made.spec.module, observation_space=ROW)), _same_module(made)
    )
    observations = batch(ROW)
    mean, var = made.get_state()["observation"]["normalize"].values()
    assert mean.dtype == var.dtype == np.float64
    np.testing.assert_allclose(
        made.scores(observations), plain.scores((observations - mean) / np.sqrt(var + 1e-8)), atol=1e-6
    )


def _same_module(made: Policy) -> RLModule:
    module = RLModuleSpec(PPOModule, ROW, Discrete(3), model_config=SMALL).build()
    module.set_state(made.module.get_state())
    return module


def test_statistics_that_cannot_normalise_change_nothing() -> None:
    made = normalised()
    state = made.get_state()
    state["observation"]["normalize"]["var"][1] = np.nan
    state["pi"]["logits"]["bias"] += 1
    before = made.get_state()
    with pytest.raises(NormalizerError, match="observation/normalize/var"):
        made.set_state(state)
    assert equal(made.get_state(), before)


def test_new_statistics_act_at_once() -> None:
    made = normalised()
    observations = batch(ROW)
    state = made.get_state()
    before = made.scores(observations)
    state["observation"]["normalize"]["mean"] += 5
    made.set_state(state)
    shifted = made.scores(observations)
    assert not np.allclose(shifted, before)
    np.testing.assert_allclose(made.scores(observations + 5), before, atol=1e-5)


def test_statistics_are_for_inference_and_come_back(tmp_path: Path) -> None:
    made = normalised(metadata={"trained": True, "env": "CartPole-v1"})
    path = Path(made.save_to_path(tmp_path / "p0"))
    with h5py.File(path / "state.h5") as file:
        np.testing.assert_array_equal(file["observation/normalize/mean"][:], [1, 2, 3, 4])
    restored = Policy.from_checkpoint(path)
    assert isinstance(restored, Policy)
    assert restored.metadata == {"trained": True, "env": "CartPole-v1"}
    assert not restored.module.training
    np.testing.assert_array_equal(restored.scores(batch(ROW)), made.scores(batch(ROW)))
    assert "observation" in made.get_state(inference_only=True)
    assert "vf" not in made.get_state(inference_only=True)


def test_the_module_of_a_policy_is_read_alone(tmp_path: Path) -> None:
    made = normalised()
    path = made.save_to_path(tmp_path / "p0")
    module = RLModule.from_checkpoint(path)
    assert equal(module.get_state(), made.module.get_state())
    slim = PPOModule.from_checkpoint(path, inference_only=True)
    assert equal(slim.get_state(), made.module.get_state(inference_only=True))
    live = made.module.get_module_spec().build()
    live.restore_from_path(path)
    assert equal(live.get_state(), made.module.get_state())


def test_an_algorithm_is_no_module(tmp_path: Path) -> None:
    from rlpipe.algorithms.algorithm import Algorithm

    path = Algorithm({"p0": policy()}).save_to_path(tmp_path / "algorithm")
    with pytest.raises(SpecError, match="is no module"):
        RLModule.from_checkpoint(path)


@pytest.mark.parametrize("kind", [networks.Reserved])
def test_a_module_may_not_use_the_names_of_stages(kind: type[RLModule]) -> None:
    with pytest.raises(SpecError, match="keeps state under observation") as caught:
        PolicySpec.default(kind, Box.uniform(-1, 1, (3,)), Discrete(2)).build()
    assert "rename" in caught.value.fix


def test_statistics_of_parts(tmp_path: Path) -> None:
    space = Dict({"a": Box.uniform(-9, 9, (2,)), "b": Box.uniform(-9, 9, (1,), np.float64)})
    stages: tuple[Stage, ...] = (PerKey({"a": (NORMALIZE,), "b": (Cast("float32"),)}), Concat(("b", "a")))
    module = RLModuleSpec(PPOModule, prepared_space(space, stages), Discrete(3), model_config=SMALL)
    made = PolicySpec(module, space, Discrete(3), stages, (Argmax(),)).build()
    assert set(made.get_own_roles()) >= {"observation/per_key/a/normalize/mean", "observation/per_key/a/normalize/var"}
    state = made.get_state()
    state["observation"]["per_key"]["a"]["normalize"]["mean"] += 2
    made.set_state(state)
    restored: Any = Policy.from_checkpoint(made.save_to_path(tmp_path / "p"))
    np.testing.assert_array_equal(restored.scores(batch(space)), made.scores(batch(space)))


def test_slim_full_and_restored_policies_act_the_same(tmp_path: Path) -> None:
    made = normalised()
    slim = replace(made.spec, module=replace(made.spec.module, inference_only=True)).build()
    slim.set_state(made.get_state(inference_only=True))
    np.testing.assert_array_equal(slim.scores(batch(ROW)), made.scores(batch(ROW)))
    assert fingerprint(snapshot_of(slim)) == fingerprint(snapshot_of(made))


def test_a_policy_from_a_state() -> None:
    made = normalised()
    again = Policy.from_state(made.get_state(), made.spec)
    np.testing.assert_array_equal(again.scores(batch(ROW)), made.scores(batch(ROW)))
    with pytest.raises(StateMismatchError):
        Policy.from_state(made.get_state(inference_only=True), made.spec)


def test_a_spec_comes_back_from_its_snapshot() -> None:
    made = normalised()
    spec = snapshot_of(made).spec
    assert PolicySpec.from_spec(spec).to_spec() == spec
    assert PolicySpec.from_spec(spec).build(device="meta").get_spec() == spec


def test_a_policy_on_meta_has_keys_and_no_memory() -> None:
    meta: Any = build(snapshot_of(normalised()), device="meta")
    assert all(parameter.is_meta for parameter in meta.graph().parameters())
    assert meta.get_own_roles() == normalised().get_own_roles()


def test_a_graph_can_be_copied_and_has_named_ends() -> None:
    made = policy(OBSERVATIONS["nested"])
    graph = copy.deepcopy(made.graph())
    assert graph.input_names == ("obs.w", "obs.x.0", "obs.x.1.y")
    assert graph.output_names == ("action",)
    arrays = flat_batch(OBSERVATIONS["nested"], batch(OBSERVATIONS["nested"]), "obs")
    tensors = [torch.from_numpy(arrays[name]) for name in graph.input_names]
    with torch.no_grad():
        found = graph.eval()(*tensors).numpy()
    np.testing.assert_array_equal(found, made.compute_actions(batch(OBSERVATIONS["nested"])))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"observation": (Cast("float64"), Normalize("var_eps", 0.0, None), Cast("float64"))}, "observation"),
        ({"observation_space": Box.uniform(-1, 1, (5,))}, "do not lead to what the module takes"),
        ({"action": ()}, "do not lead to what the environment takes"),
        ({"action": (Argmax(), Cast("int32"))}, "do not lead to what the environment takes"),
        ({"action_space": Dict({"a": Discrete(2)})}, "cannot act in this space"),
        ({"observation": (NORMALIZE, NORMALIZE)}, "two stages normalize"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError) as caught:
        replace(normalised().spec, **change).build()
    assert named in str(caught.value)


def test_a_spec_with_a_wrong_field_names_it() -> None:
    spec = normalised().spec
    with pytest.raises(SpecError, match="obervation"):
        PolicySpec.from_json({**spec.to_json(), "obervation": []}, spec.options())
    with pytest.raises(SpecError, match="lacks action"):
        PolicySpec.from_json(
            {name: value for name, value in spec.to_json().items() if name != "action"}, spec.options()
        )


def test_two_outputs_that_decide_are_refused() -> None:
    from rlpipe.policies.policy_graph import decided_by

    tensor = torch.zeros(1)
    assert decided_by({"mean": tensor, "log_std": tensor}) is tensor
    for outputs in ({"mean": tensor, "q": tensor}, {"value": tensor}, {}):
        with pytest.raises(SpecError, match="one thing that decides"):
            decided_by(outputs)


def test_a_network_of_another_width_is_refused() -> None:
    from rlpipe.modules.torch.torch_module import TorchModule

    config = {"class": networks.Net, "kwargs": {"inputs": 4, "outputs": 5}, "output": "logits"}
    made = PolicySpec.default(TorchModule, ROW, Discrete(3), model_config=config).build()
    with pytest.raises(SpecError, match="does not fit the action space") as caught:
        made.compute_actions(batch(ROW))
    assert "3 numbers" in caught.value.expected


def test_a_fresh_policy_says_so_and_draws_its_numbers_once() -> None:
    torch.manual_seed(7)
    first = PolicySpec.default(PPOModule, ROW, Discrete(3))
    one = first.build()
    torch.manual_seed(7)
    other = first.build()
    assert one.metadata == {"trained": False}
    assert equal(one.get_state(), other.get_state())


def test_a_module_that_fails_on_its_own_observations_is_named() -> None:
    with pytest.raises(SpecError, match="Trunk fails on observations"):
        PolicySpec.default(networks.Trunk, Box.uniform(-1, 1, (5,)), Discrete(2))


def test_a_policy_normalises_with_the_trainers_precision_and_exports_float32() -> None:
    space = Box.uniform(-np.inf, np.inf, (4,), np.dtype(np.float32))
    stages = (Normalize("var_eps", 1e-8, None),)
    module = RLModuleSpec(networks.Echo, prepared_space(space, stages), Box.uniform(-np.inf, np.inf, (4,)))
    spec = PolicySpec(module, space, Box.uniform(-np.inf, np.inf, (4,)), stages, ())
    mean, var = np.array([1e3, -7.7, 1e-3, 0]), np.array([1e-2, 1e-6, 3.3, 7.0])
    echo = Policy(spec, spec.module.build(), statistics={"normalize": {"mean": mean, "var": var}})
    rng = np.random.default_rng(0)
    x = (mean + np.sqrt(var) * rng.normal(size=(500, 4)) * 10.0 ** rng.uniform(-3, 3, (500, 4))).astype(np.float32)
    expected = ((x - mean) / np.sqrt(var + 1e-8)).astype(np.float32)
    np.testing.assert_array_equal(echo.compute_actions(x), expected)
    exported = echo.graph()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(exported, expected, rtol=1e-6)
    assert not np.array_equal(exported, expected)


class Failing(networks.Trunk):
    """Takes no batch of three."""

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        if len(batch["obs"]) == 3:
            raise KeyError("a first line\nno batch of three")
        return super().forward_inference(batch)


def test_a_network_that_fails_is_named_with_what_it_said() -> None:
    made = PolicySpec.default(Failing, Box.uniform(-1, 1, (3,)), Discrete(2)).build()
    for act in (made.compute_actions, made.scores, made.margins):
        with pytest.raises(SpecError, match="Failing fails in forward_inference") as caught:
            act(np.zeros((3, 3), np.float32))
        assert "no batch of three" in caught.value.found
        assert isinstance(caught.value.__cause__, KeyError)
    assert made.compute_actions(np.zeros((2, 3), np.float32)).shape == (2,)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
@pytest.mark.parametrize(
    "space",
    [
        Discrete(2),
        MultiBinary((2,)),
        Box.uniform(-1, 1, (2,)),
        Box.uniform(-np.inf, np.inf, (2,)),
        Box.uniform(-1, 1, (2,), np.float16),
        Box.uniform(-1, 1, (2,), np.float64),
        Box.uniform(-9, 9, (2,), np.int64),
    ],
    ids=str,
)
def test_whatever_the_network_computes_in_the_actions_are_the_spaces(dtype: str, space: Any, tmp_path: Path) -> None:
    config = {"dtype": dtype, "output": "mean" if isinstance(space, Box) else "logits"}
    made = PolicySpec.default(stray.InDtype, ROW, space, model_config=config).build()
    actions = made.compute_actions(batch(ROW))
    assert actions.dtype == space.dtype
    assert space.contains(actions)
    assert made.scores(batch(ROW)).dtype.name in {"float32", "float64"}
    path = made.save_to_path(tmp_path / "policy")
    restored: Any = Policy.from_checkpoint(path, trust=("tests.*",))
    np.testing.assert_array_equal(restored.compute_actions(batch(ROW)), actions)


def test_float64_is_kept_where_actions_have_it() -> None:
    space = Box.uniform(-9, 9, (2,), np.float64)
    config = {"dtype": "float64", "output": "mean"}
    made = PolicySpec.default(stray.InDtype, ROW, space, model_config=config).build()
    observations = batch(ROW)
    weight, bias = (made.module.get_parameter(f"pi.{name}").detach().numpy() for name in ("weight", "bias"))
    np.testing.assert_allclose(made.compute_actions(observations), observations @ weight.T + bias, rtol=1e-12)


_LONG, _UNSIGNED, _LARGE = np.iinfo(np.int64), np.iinfo(np.uint64), float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    "space",
    [
        Box(np.array([_LONG.min, -(2**53) - 1]), np.array([_LONG.max, 2**53 + 1]), np.dtype(np.int64)),
        Box(np.array([0, 3], np.uint64), np.array([_UNSIGNED.max, 2**63 + 1], np.uint64), np.dtype(np.uint64)),
        Box(np.array([_LONG.max, 5]), np.array([_LONG.max, 5]), np.dtype(np.int64)),
        Box.uniform(-_LARGE, _LARGE, (2,)),
        Box.uniform(-_LARGE / 2, _LARGE, (2,)),
        Box.uniform(-np.finfo(np.float64).max, np.finfo(np.float64).max, (2,), np.float64),
        Box.uniform(-65504, 65504, (2,), np.float16),
        Box.uniform(np.iinfo(np.int32).min, np.iinfo(np.int32).max, (2,), np.int32),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [PPOModule, SACModule])
def test_the_farthest_actions_stay_in_the_space(space: Any, kind: type[RLModule]) -> None:
    made = PolicySpec.default(kind, ROW, space).build()
    observations = batch(ROW, 64)
    for factor in (0.0, 1e3, 1e30):
        with torch.no_grad():
            made.module.get_parameter("pi.mean.bias").copy_(torch.tensor([factor, -factor]) * 1e8)
        actions = made.compute_actions(observations)
        where = np.array(space.low == space.high)
        inside = (actions >= space.low) & (actions <= space.high)
        assert (inside | where).all()
        assert actions.dtype == space.dtype


def test_where_nothing_is_chosen_the_scores_are_what_the_module_puts_out() -> None:
    made = PolicySpec.default(PPOModule, ROW, Box.uniform(-1, 1, (2,), np.int64)).build()
    with torch.no_grad():
        made.module.get_parameter("pi.mean.bias").fill_(torch.nan)
    assert np.isnan(made.scores(batch(ROW))).all()


def test_statistics_can_be_taken_out_and_put_in() -> None:
    made = normalised()
    before = made.scores(batch(ROW))
    statistics = made.get_statistics()
    statistics["normalize"]["mean"] = statistics["normalize"]["mean"] + 1
    assert (made.scores(batch(ROW)) == before).all()
    made.set_statistics(statistics)
    np.testing.assert_allclose(made.scores(batch(ROW) + 1), before, atol=1e-5)
    centre = torch.from_numpy(statistics["normalize"]["mean"])[None].float()
    np.testing.assert_allclose(made.running_graph().observation(centre), np.zeros((1, 4)), atol=1e-6)
