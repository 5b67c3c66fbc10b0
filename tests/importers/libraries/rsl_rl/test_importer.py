"""The importer of rsl_rl on golden files, without the library."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.checkpoint.restore import build
from rlpipe.errors import ConfigError, ForeignFormatError, NormalizerError
from rlpipe.importers import ImportedFile, recognise
from rlpipe.importers.libraries.rsl_rl import Options, read
from rlpipe.snapshot.identity import content_hash
from rlpipe.snapshot.state import arrays, entries
from tests.conformance.importer_suite import ImporterSuite

GOLDEN = Path(__file__).parents[3] / "golden" / "rsl_rl"
ALONE = Options(params="none", activation="elu")


def golden(name: str) -> Path:
    """The checkpoint of a golden run."""
    (path,) = (GOLDEN / name).glob("*.pt")
    return path


def run_of(name: str, folder: Path) -> Path:
    """A copy of a golden run that a test may change; its checkpoint."""
    shutil.copytree(GOLDEN / name, folder / name)
    return folder / name / golden(name).name


class TestRslRl(ImporterSuite):
    importer_id = "rsl_rl"
    libraries = ("rsl_rl", "tensordict")

    @staticmethod
    def examples() -> Mapping[str, Path]:
        names = ("v2_mlp", "v2_student", "v3_mlp", "v3_state", "v4_mlp", "v5_mlp", "v5_state", "v5_student")
        return {name: golden(name) for name in names}

    def read(self, path: Path) -> ImportedFile:
        # The copies that the suite makes lie without their settings.
        return read(path, Options() if (path.parent / "params").is_dir() else ALONE)


class TestRecurrent(TestRslRl):
    @staticmethod
    def examples() -> Mapping[str, Path]:
        return {name: golden(name) for name in ("v2_lstm", "v3_gru", "v4_lstm", "v5_lstm", "v5_gru")}

    def test_acts_as_the_trainer_did(self) -> None:
        """200 steps of four rows, each with episodes that end now and then."""
        for name, path in self.examples().items():
            with np.load(path.with_suffix(".npz")) as known:
                rows = [known[part] for part in ("observations", "starts", "actions")]
            policy: Any = build(self.read(path).snapshot)
            state = None
            assert (len(rows[1]), rows[1][1:].any()) == (200, True)
            for number, (observations, starts, actions) in enumerate(zip(*rows, strict=True)):
                step = policy.step(observations, state, episode_start=starts)
                state = step.state
                np.testing.assert_allclose(step.actions, actions, rtol=0, atol=1e-6, err_msg=f"{name}, step {number}")


def test_what_a_policy_remembers_is_in_its_spec() -> None:
    config = read(golden("v5_lstm"), Options()).snapshot.spec.config["module"]
    part = {"shape": [2, 12], "dtype": "float32"}
    assert config["state"] == {"actor/c": part, "actor/h": part}
    assert config["model_config"]["actor"] == {
        "type": "lstm", "hidden_size": 12, "num_layers": 2, "before": None,
        "after": {"type": "mlp", "hidden": [16, 8], "activation": "elu"},
    }  # fmt: skip


def test_a_file_of_the_first_version_acts_as_it_did() -> None:
    path = golden("v1_mlp")
    found = read(path, Options(activation="elu"))
    with np.load(path.with_suffix(".npz")) as known:
        policy: Any = build(found.snapshot)
        np.testing.assert_allclose(policy.compute_actions(known["observations"]), known["actions"], rtol=0, atol=1e-6)
    assert recognise(path) == "rsl_rl"
    assert found.snapshot.metadata["source"]["version"] == "1.x to 3.x"
    assert found.snapshot.spec.config["observation"] == []


@pytest.mark.parametrize(
    ("name", "version", "algorithm"),
    [
        ("v2_mlp", "2.x", "PPO"),
        ("v2_student", "2.x", "Distillation"),
        ("v3_mlp", "3.x", "PPO"),
        ("v4_mlp", "4.x", "PPO"),
        ("v5_mlp", "5.x", "PPO"),
        ("v5_student", "5.x", "Distillation"),
    ],
)
def test_the_file_tells_its_version(name: str, version: str, algorithm: str) -> None:
    metadata = read(golden(name), Options()).snapshot.metadata
    assert (metadata["source"]["version"], metadata["source"]["algorithm"]) == (version, algorithm)
    assert (metadata["trained"], metadata["source"]["iteration"]) == (True, 2)


def test_without_settings_the_missing_activation_is_asked_for() -> None:
    with pytest.raises(ForeignFormatError, match=r"source\.activation=elu") as caught:
        read(golden("v1_mlp"), Options())
    assert "params" in caught.value.found


def test_the_activation_of_the_command_wins_and_that_is_said() -> None:
    found = read(golden("v5_mlp"), Options(activation="lrelu"))
    assert found.snapshot.spec.config["module"]["model_config"]["actor"]["activation"] == "leaky_relu"
    assert any("though agent.yaml says elu" in note for note in found.report.warnings)


def test_an_unknown_activation_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        read(golden("v1_mlp"), Options(activation="eluu"))


def test_crelu_says_two_things_where_the_version_is_not_known() -> None:
    with pytest.raises(ConfigError, match="celu"):
        read(golden("v1_mlp"), Options(activation="crelu"))


def test_the_critic_comes_along_where_it_saw_what_the_actor_saw() -> None:
    roles = read(golden("v5_mlp"), Options()).snapshot.roles
    assert {key for key, role in roles.items() if role == "training"} == {
        *("vf/weight", "vf/bias", "encoder/critic_encoder/0/weight", "encoder/critic_encoder/0/bias"),
        *("encoder/critic_encoder/2/weight", "encoder/critic_encoder/2/bias"),
    }


def test_a_critic_with_observations_of_its_own_stays_behind_and_that_is_said() -> None:
    found = read(golden("v3_mlp"), Options())
    assert set(found.snapshot.roles.values()) == {"inference"}
    assert "other observations" in dict(found.report.skipped)["the critic"]


def test_clipped_actions_are_the_action_space() -> None:
    config = read(golden("v3_mlp"), Options()).snapshot.spec.config
    assert config["action"] == [{"type": "clip", "low": -0.25, "high": 0.25}]
    config = read(golden("v3_mlp"), Options(clip_actions=2.0)).snapshot.spec.config
    assert config["action"] == [{"type": "clip", "low": -2.0, "high": 2.0}]
    with pytest.raises(ConfigError, match="above 0"):
        read(golden("v3_mlp"), Options(clip_actions=-1.0))


def test_deviations_become_their_logarithm() -> None:
    scalar = read(golden("v5_mlp"), Options()).snapshot
    assert arrays(scalar.state)["pi/log_std"].shape == (3,)
    assert np.abs(arrays(scalar.state)["pi/log_std"]).max() < 0.1  # they began at 1
    assert scalar.spec.config["module"]["model_config"]["log_std"] == "free"


@pytest.mark.parametrize(
    ("name", "kind", "key"),
    [
        ("v3_mlp", "free", "pi/log_std"),
        ("v3_state", "state", "pi/log_std/weight"),
        ("v5_state", "std", "pi/std/weight"),
        ("v2_student", "free", "pi/log_std"),
    ],
)
def test_deviations_of_every_kind(name: str, kind: str, key: str) -> None:
    found = read(golden(name), Options()).snapshot
    assert found.spec.config["module"]["model_config"]["log_std"] == kind
    assert key in arrays(found.state)


def test_how_actions_spread_is_asked_for_where_nothing_tells() -> None:
    with pytest.raises(ForeignFormatError, match=r"source\.params"):
        read(golden("v5_state"), ALONE)


def test_a_distribution_that_is_not_a_gaussian_is_refused() -> None:
    with pytest.raises(ForeignFormatError, match="BetaDistribution"):
        read(golden("v5_beta"), Options())


@pytest.mark.parametrize(
    ("case", "line", "spoiled", "key"),
    [
        ("v5_beta", "    class_name: BetaDistribution", "    class^name: BetaDistribution", "class_name"),
        ("v5_beta", "    class_name: BetaDistribution", "    class_name: 3", "class_name"),
        ("v5_beta", "  distribution_cfg:\n    class_name: BetaDistribution", "  distribution_cfg: Beta", "class_name"),
        ("v5_state", "    std_type: scalar", "    std^type: log", "std^type"),
        ("v5_mlp", "    std_type: scalar", "    std_type: lgo", "std_type"),
    ],
)
def test_what_the_actions_are_drawn_from_is_not_guessed(
    case: str, line: str, spoiled: str, key: str, tmp_path: Path
) -> None:
    path = run_of(case, tmp_path)
    settings = path.parent / "params" / "agent.yaml"
    assert line in settings.read_text()
    settings.write_text(settings.read_text().replace(line, spoiled))
    with pytest.raises(ForeignFormatError) as caught:
        read(path, Options())
    assert caught.value.subject.startswith("agent.yaml ")
    assert caught.value.subject.endswith(f": actor.distribution_cfg.{key}")


def test_settings_of_another_run_are_refused(tmp_path: Path) -> None:
    path = run_of("v5_mlp", tmp_path)
    text = (path.parent / "params" / "agent.yaml").read_text()
    (path.parent / "params" / "agent.yaml").write_text(text.replace("- 16", "- 17"))
    with pytest.raises(ForeignFormatError, match="does not belong") as caught:
        read(path, Options())
    assert "[17, 8]" in caught.value.expected
    assert content_hash(read(path, ALONE).snapshot)


def test_statistics_that_the_settings_speak_of_have_to_be_there(tmp_path: Path) -> None:
    path = run_of("v1_mlp", tmp_path)
    shutil.copytree(GOLDEN / "v2_mlp" / "params", path.parent / "params")
    with pytest.raises(NormalizerError, match="no statistics"):
        read(path, Options())


def test_a_layer_of_minus_one_is_as_wide_as_the_observation(tmp_path: Path) -> None:
    path = run_of("v5_mlp", tmp_path)
    text = (path.parent / "params" / "agent.yaml").read_text()
    (path.parent / "params" / "agent.yaml").write_text(text.replace("- 16", "- -1"))
    with pytest.raises(ForeignFormatError) as caught:
        read(path, Options())
    assert "[8, 8]" in caught.value.expected


def test_the_settings_change_nothing_in_the_numbers() -> None:
    whole, alone = (read(golden("v5_mlp"), options).snapshot for options in (Options(), ALONE))
    assert entries(whole.state).keys() == entries(alone.state).keys()
    assert all(np.array_equal(array, arrays(alone.state)[key]) for key, array in arrays(whole.state).items())
    assert "target" not in alone.spec.config
