"""What RLlib's published tests check of its checkpoints, re-created on modules of this repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.errors import IdError, SelectionError, SpecError, TieError
from rlpipe.modules.inference_only_api import InferenceOnlyAPI
from rlpipe.modules.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.state import equal
from tests.algorithms.whole import TRUST, go, training, whole
from tests.algorithms.whole import cartpole_policy as policy
from tests.modules.networks import Remembering, Shared, Trunk

ROOT = Path(__file__).parents[2]
OWN = ("tests.*",)
ENVIRONMENTS = """
import sys
from rlpipe.policies.policy import Policy
from rlpipe.algorithms.algorithm import Algorithm
trust = ("tests.algorithms.training.*",)
policies = Policy.from_checkpoint(sys.argv[1])
Algorithm.from_checkpoint(sys.argv[1], trust=trust)
Algorithm.from_state(Algorithm(policies).get_state(), {name: policy.spec for name, policy in policies.items()})
import rlpipe
rlpipe.export(sys.argv[1], sys.argv[2], targets=["numpy"], policy_ids=["p0"], trust=trust)
print([name for name in sys.modules if name.split(".")[0] in ("gymnasium", "gym", "ale_py", "mujoco", "pettingzoo")])
"""


def nudge(module: Any) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.5)


# Subset: an algorithm of many policies, restored in part.


def test_a_subset_of_policies_keeps_training_state_and_runs(tmp_path: Path) -> None:
    made = whole("p0", "p1", "p2", "p3")
    go(made, 2, n=40)
    path = made.save_to_path(tmp_path / "a")
    subset = Algorithm.from_checkpoint(path, ["p1", "p3"], {"0": "p1", "*": "p3"}, ["p3"], trust=TRUST)
    assert sorted(subset.policies) == ["p1", "p3"]
    for name in ("p1", "p3"):
        assert equal(subset.get_policy(name).get_state(), made.get_policy(name).get_state())
    before = subset.get_policy("p1").get_state()
    assert list(go(subset, 1)[0]) == ["p3"]
    after = subset.get_policy("p1").get_state()
    assert equal({**before, "observation": None}, {**after, "observation": None})


# modules_to_load: some modules of a container from another one's checkpoint.


def test_modules_to_load_take_some_and_leave_the_rest(tmp_path: Path) -> None:
    source, target = (MultiRLModule({name: policy(seed=seed + i) for i, name in enumerate("abc")}) for seed in (0, 10))
    path = Path(source.save_to_path(tmp_path / "m"))
    before = target.get_state()
    for name in ("a", "c"):
        target.restore_from_path(path / name, component=name)
    found = target.get_state()
    assert equal(found["a"], source.get_state()["a"])
    assert equal(found["c"], source.get_state()["c"])
    assert equal(found["b"], before["b"])
    target.set_state(source.get_state(components=["b"]))
    assert equal(target.get_state(), source.get_state())
    with pytest.raises(SpecError):
        target.restore_from_path(path / "a", component="z")


def test_a_single_module_goes_into_a_container(tmp_path: Path) -> None:
    single = policy(seed=3)
    path = single.save_to_path(tmp_path / "single")
    target = MultiRLModule({"a": policy(), "b": policy(seed=1)})
    target.restore_from_path(path, component="b")
    assert equal(target["b"].get_state(), single.get_state())
    slim = RLModule.from_checkpoint(path, inference_only=True)
    assert slim.inference_only


# Multi-module restore: whole containers, own networks, shared layers.


def test_a_container_with_a_network_of_its_own_comes_back_shared(tmp_path: Path) -> None:
    made: Any = Shared({name: policy_of(Trunk, seed) for seed, name in enumerate(("p0", "p1"))})
    nudge(made)
    restored: Any = MultiRLModule.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=OWN)
    assert equal(restored.get_state(), made.get_state())
    assert restored["p0"].trunk is restored.common
    assert restored["p0"].trunk.weight is restored["p1"].trunk.weight


def policy_of(kind: Any, seed: int) -> RLModule:
    from rlpipe.modules.rl_module import RLModuleSpec
    from rlpipe.snapshot.spaces import Box, Discrete

    torch.manual_seed(seed)
    return RLModuleSpec(kind, Box.uniform(-1, 1, (3,)), Discrete(2)).build()


def test_modules_are_added_removed_renamed_and_counted(tmp_path: Path) -> None:
    made = MultiRLModule({"a": policy_of(Trunk, 0), "b": policy_of(Trunk, 1)})
    made.add_rl_module("c", policy_of(Trunk, 2))
    made.rename_rl_module("a", "first")
    assert list(made) == ["first", "b", "c"]
    removed = made.remove_rl_module("b")
    assert isinstance(removed, Trunk)
    assert [name for name, _ in made.items()] == list(made.keys()) == ["first", "c"]
    assert len(made) == 2
    assert "b" not in made
    assert len(list(made.parameters())) == sum(len(list(module.parameters())) for module in made.values())
    restored = MultiRLModule.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=OWN)
    assert equal(restored.get_state(), made.get_state())
    with pytest.raises(IdError):
        made.add_rl_module("c", policy_of(Trunk, 2))
    with pytest.raises(IdError):
        made.rename_rl_module("c", "first")
    with pytest.raises(IdError):
        made.add_rl_module("a/b", policy_of(Trunk, 2))
    with pytest.raises(SelectionError):
        made.remove_rl_module("b")
    with pytest.raises(SelectionError):
        made.rename_rl_module("b", "d")


def test_a_module_that_shares_nothing_yet_is_no_silent_sharer_after_a_restore(tmp_path: Path) -> None:
    made: Any = Shared({"p0": policy_of(Trunk, 0)})
    made.add_rl_module("p1", policy_of(Trunk, 1))
    nudge(made.common)
    with pytest.raises(TieError, match=r"p1/trunk/weight"):
        made.save_to_path(tmp_path / "a")
    made["p1"].trunk = made.common
    restored: Any = MultiRLModule.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=OWN)
    assert equal(restored.get_state(), made.get_state())
    assert restored["p1"].trunk is restored.common


def test_layers_that_are_one_take_no_two_values() -> None:
    made: Any = Shared({name: policy_of(Trunk, seed) for seed, name in enumerate(("p0", "p1"))})
    before = made.get_state()
    state = made.get_state()
    state["p1"]["trunk"]["weight"] += 1
    with pytest.raises(TieError, match="different values"):
        made.set_state(state)
    assert equal(made.get_state(), before)


def test_a_module_that_is_added_as_rllib_does_it_is_no_network_of_the_container(tmp_path: Path) -> None:
    made = MultiRLModule({"a": policy_of(Trunk, 0)})
    with pytest.raises(SpecError, match="add_rl_module"):
        made.add_module("b", policy_of(Trunk, 1))
    made.save_to_path(tmp_path / "a")


class Unasked(Trunk):
    """Says what acting does not need, without the base class for it."""

    def setup(self) -> None:
        super().setup()
        self.critic = torch.nn.Linear(3, 1)

    def get_non_inference_attributes(self) -> list[str]:
        return ["critic"]


def test_a_list_of_training_attributes_is_asked_for_without_its_base_class(tmp_path: Path) -> None:
    full = policy_of(Unasked, 0)
    path = full.save_to_path(tmp_path / "a")
    slim = RLModule.from_checkpoint(path, inference_only=True, trust=OWN)
    assert full.get_state().keys() - slim.get_state().keys() == {"critic"}
    assert not isinstance(policy_of(Trunk, 0), InferenceOnlyAPI)


def test_shared_layers_survive_a_removal_and_names_of_networks_are_taken() -> None:
    made: Any = Shared({name: policy_of(Trunk, seed) for seed, name in enumerate(("p0", "p1", "p2"))})
    made.remove_rl_module("p0")
    assert made["p1"].trunk is made["p2"].trunk is made.common
    made.rename_rl_module("p1", "p9")
    assert made["p9"].trunk is made.common
    with pytest.raises(SpecError, match="names a module and a network"):
        made.add_rl_module("common", policy_of(Trunk, 3))


def test_slim_copies_of_modules_with_a_memory_act_the_same() -> None:
    full = policy_of(Remembering, 0)
    spec = full.get_module_spec()
    made = MultiRLModuleSpec(rl_module_specs={"p0": spec}, inference_only=True).build(trust=OWN)
    made["p0"].set_state(full.get_state(inference_only=True))
    state = {name: torch.as_tensor(value).expand(2, -1) for name, value in full.get_initial_state().items()}
    batch = {"obs": torch.ones(2, 3), "state_in": state}
    one, other = full.forward_inference(batch), made.forward_inference({"p0": batch})["p0"]
    assert torch.equal(one["logits"], other["logits"])
    assert torch.equal(one["state_out"]["h"], other["state_out"]["h"])


# Weights sync: what was trained acts at once.


def test_trained_weights_act_at_once_in_every_copy() -> None:
    made = whole("p0", runners=2)
    go(made, 1)
    observations = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    expected = made.get_policy("p0").scores(observations)
    assert made.runners is not None
    assert made.evaluation is not None
    for runner in (*made.runners.runners, *made.evaluation.runners):
        assert np.array_equal(runner.policies["p0"].scores(observations), expected)
    nudge(made.get_policy("p0").module)
    made.sync()
    expected = made.get_policy("p0").scores(observations)
    assert np.array_equal(made.runners.first.policies["p0"].scores(observations), expected)


# Connector state: statistics of observations.


def test_statistics_of_observations_are_saved_restored_and_frozen_where_nothing_is_sampled(tmp_path: Path) -> None:
    made = whole("p0")
    go(made, 3, n=50)
    path = made.save_to_path(tmp_path / "a")
    statistics = made.get_policy("p0").get_statistics()
    restored = Algorithm.from_checkpoint(path, trust=TRUST)
    assert equal(restored.get_policy("p0").get_statistics(), statistics)
    restored.evaluate(2)
    assert equal(restored.get_policy("p0").get_statistics(), statistics)
    assert restored.runners is not None
    seen = restored.runners.first.observation_counts["p0"]
    found = restored.sample(10)["p0"]
    assert restored.runners.first.observation_counts["p0"] == seen + len(found["obs"])
    assert not equal(restored.get_policy("p0").get_statistics(), statistics)
    alone: Any = Policy.from_checkpoint(path, ["p0"])
    assert equal(alone["p0"].get_statistics(), statistics)


# Remove and add: the same id with another network.


def test_a_policy_is_removed_and_another_one_takes_its_id(tmp_path: Path) -> None:
    made = whole("p0", "p1")
    go(made, 1)
    made.set_policy_mapping({"*": "p0"})
    made.remove_policy("p1")
    wider = policy(normalised=True, model_config={})
    made.add_policy("p1", wider.spec, training=training(), policy_mapping_fn={"0": "p0", "1": "p1"}, trust=TRUST)
    assert sorted(go(made, 1)[0]) == ["p0", "p1"]
    restored = Algorithm.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    assert equal(restored.get_state(), made.get_state())


def test_a_learner_of_one_and_of_both_modules(tmp_path: Path) -> None:
    policies = {"p0": policy(), "p1": policy(seed=1)}
    made = Learner.for_policies(policies, training(), policies_to_train=["p1"], trust=TRUST)
    assert made.policies_to_train == ("p1",)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    assert restored.policies_to_train == ("p1",)
    assert sorted(restored.policies) == ["p0", "p1"]


def test_no_environment_is_needed_to_restore_or_export(tmp_path: Path) -> None:
    made = whole("p0", "p1")
    go(made, 1)
    path = made.save_to_path(tmp_path / "a")
    command = [sys.executable, "-c", ENVIRONMENTS, path, str(tmp_path / "out")]
    found = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    assert found.stdout.splitlines()[-1] == "[]"
