"""Makes the golden directories of RLlib in this folder: python -m tests.golden.rllib.make [name ...] (needs ray).

Each is a checkpoint, with `<name>.npz` beside it: for each policy `<id>/observations` and the `<id>/actions` of RLlib's
own env runner, which does not explore; of policies that remember (steps, rows, ...). `ppo_choices` is whole; of the
others only what an importer may open is kept.
Paths of the machine that made them are written over.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray
import tree
from ray.rllib.algorithms.ppo import PPOConfig

from tests.importers.rllib_models import (
    AGENTS,
    CASES,
    SKEWED,
    VECTOR,
    Array,
    Case,
    acted,
    acted_in_an_episode,
    acted_in_steps,
    observation_space,
    observations,
    saved,
    sequences,
    stacked,
    start,
)

HERE = Path(__file__).parent
COUNT = 64
WHOLE = "ppo_choices"
IMAGES = 6
LEFT_OUT = (
    *("ppo_raw", "ppo_unbounded", "ppo_several", "ppo_wide", "ppo_image", "ppo_image_lstm", "appo"),
    *("dqn_atoms_plain", "dqn_lstm", "dqn_image", "sac_heads", "sac_single", "sac_image", "tqc"),
)
KEPT = ("env_runner", "learner_group/learner/rl_module", "rllib_checkpoint.json", "metadata.json")


def main(names: Sequence[str]) -> None:
    """Make some of them, or all."""
    start()
    for name, case in CASES.items():
        if name in names or not (names or name in LEFT_OUT):
            keep(name, case, use_msgpack=name == "pair_filtered")
    if not names or "old_filtered" in names:
        keep_old()


def keep(name: str, case: Case, *, use_msgpack: bool) -> None:
    """One checkpoint of the new stack, and what it does."""
    algorithm = case.algorithm()
    folder = fresh(name)
    known: dict[str, Array] = {}
    if "lstm" in name:
        keep_known(name, named("default_policy", sequences(), acted_in_steps(algorithm, sequences())))
    elif "frames" in name:
        observed = observations(observation_space(algorithm), IMAGES)
        keep_known(name, named("default_policy", stacked(observed), acted_in_an_episode(algorithm, observed)))
    else:
        for agent, policy_id in AGENTS.items() if name.startswith("pair") else [(None, "default_policy")]:
            space = observation_space(algorithm, agent)
            observed = observations(space, IMAGES if len(space.shape or ()) == 3 else COUNT)
            known |= named(policy_id, stacked(observed), acted(algorithm, observed, agent))
        keep_known(name, known)
    saved(algorithm, folder, use_msgpack=use_msgpack)
    algorithm.stop()
    if name != WHOLE:
        prune(folder)
    scrub(folder)


def keep_old() -> None:
    """A checkpoint of the old stack with an observation filter; RLlib's policy says what it does to filtered ones."""
    config = (
        PPOConfig()
        .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
        .environment("rlpipe_box")
        .env_runners(num_env_runners=0, observation_filter="MeanStdFilter", rollout_fragment_length=20)
        .training(train_batch_size=40, minibatch_size=20, num_epochs=1, model={"fcnet_hiddens": [8, 6]})
    )
    algorithm = config.build_algo()
    algorithm.train()
    algorithm.train()
    policy = algorithm.get_policy()
    rng = np.random.default_rng(3)
    policy.set_weights(
        {key: rng.normal(size=np.shape(value)).astype(np.float32) * 0.5 for key, value in policy.get_weights().items()}
    )
    folder = fresh("old_filtered")
    algorithm.save(str(folder))
    observed = observations(VECTOR, COUNT)
    actions = np.stack([algorithm.compute_single_action(one, explore=False) for one in observed])
    assert SKEWED.contains(actions[0])
    keep_known("old_filtered", named("default_policy", stacked(observed), actions))
    algorithm.stop()
    scrub(folder)


def keep_known(name: str, known: dict[str, Any]) -> None:
    """What the policies of a checkpoint do, beside it."""
    np.savez_compressed(HERE / f"{name}.npz", **known)


def named(policy_id: str, observed: Any, actions: Any) -> dict[str, Array]:
    """The arrays of one policy under the names in a file."""
    found = {}
    for kind, value in (("observations", observed), ("actions", actions)):
        for path, part in tree.flatten_with_path(value):
            found["/".join((policy_id, kind, *map(str, path)))] = part
    return found


def fresh(name: str) -> Path:
    """A folder that is not there."""
    shutil.rmtree(HERE / name, ignore_errors=True)
    return HERE / name


def prune(folder: Path) -> None:
    """Leave what an importer may open."""
    kept = {folder / name for name in KEPT}
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        is_kept = any(file == one or one in file.parents for one in kept)
        if not is_kept or (file.parent.name == "env_runner" and file.name.startswith("class_and")):
            file.unlink()


def scrub(folder: Path) -> None:
    """Write over paths of this machine, length for length, and shorten them in JSON."""
    for file in folder.rglob("*"):
        if file.suffix == ".json":
            facts = json.loads(file.read_text())
            facts["state_file"] = Path(facts.get("state_file", "")).name
            file.write_text(json.dumps(facts))
        elif file.is_file():
            data = file.read_bytes()
            for place in (str(Path(ray.__file__).parents[1]), str(HERE.parents[2]), str(Path.home()), "/tmp/"):
                data = data.replace(place.encode(), b"x" * len(place))
            file.write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1:])
