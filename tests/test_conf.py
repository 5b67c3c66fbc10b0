"""Every option of every group composes, and the help names what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rlpipe.config import conf, schema
from rlpipe.config.keys import unknown_keys
from rlpipe.config.validation import read_settings
from rlpipe.pipeline.runner import task_names

CONF = conf.shipped_directory()
GROUPS = conf.groups([CONF])
OPTIONS = [(group, option) for group in GROUPS for option in conf.options(group, [CONF])]
SAME_KEYS = ("task", "checkpoint", "source")

Composer = Callable[..., dict[str, Any]]


@pytest.fixture(name="composed")
def _composed() -> Iterator[Composer]:
    schema.register()

    def composed(*overrides: str) -> dict[str, Any]:
        return OmegaConf.to_container(compose(conf.CONFIG_NAME, overrides=list(overrides)), resolve=True)  # type: ignore[return-value]

    with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
        yield composed


def test_the_groups_are_the_ones_of_the_documentation() -> None:
    assert GROUPS == ("algorithm", "checkpoint", "experiment", "export", "module", "source", "task")


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_composes_into_settings(group: str, option: str, composed: Composer) -> None:
    config = composed(f"{group}={option}")
    assert unknown_keys(config) == ()
    read_settings(config)


@pytest.mark.parametrize("group", SAME_KEYS)
def test_options_of_a_group_have_the_same_keys(group: str) -> None:
    files = [CONF / group / f"{option}.yaml" for option in conf.options(group, [CONF])]
    keys = {tuple(OmegaConf.load(file)) for file in files}
    assert len(keys) == 1


def test_there_is_an_option_for_every_task_and_it_bears_its_name(composed: Composer) -> None:
    assert conf.options("task", [CONF]) == task_names()
    for name in task_names():
        assert composed(f"task={name}")["task"]["name"] == name


def test_info_is_the_default_task(composed: Composer) -> None:
    assert composed()["task"]["name"] == "info"


def test_the_help_names_every_task() -> None:
    listed = OmegaConf.load(CONF / "config.yaml").hydra.help.template.partition("tasks\n")[2].partition("\n\n")[0]
    assert sorted(line.split()[0] for line in listed.splitlines()) == list(conf.options("task", [CONF]))


def test_the_command_line_beats_an_experiment(composed: Composer) -> None:
    assert composed("experiment=smoke")["policy_ids"] == ["p0"]
    assert composed("experiment=smoke", "policy_ids=[p9]")["policy_ids"] == ["p9"]


def test_one_policy_of_several_is_set_without_a_plus(composed: Composer) -> None:
    policies = composed("algorithm.policies.p0.module.inference_only=true")["algorithm"]["policies"]
    assert [policies[name]["module"]["inference_only"] for name in ("p0", "p1", "p2")] == [True, None, None]


def test_a_network_of_ones_own_needs_no_plus(composed: Composer) -> None:
    words = ["module.model_config.class=mine.Net", "module.model_config.output=q", "env=CartPole-v1"]
    settings = read_settings(composed("task=save", "module=torch_module", *words))
    module = settings.algorithm.policies["p0"].module
    assert module.model_config == {"class": "mine.Net", "kwargs": {}, "output": "q", "parts": False}
    assert settings.trust == ("mine.Net",)


def test_the_sample_is_one_policy_of_each_kind(composed: Composer) -> None:
    policies = composed("algorithm=sample")["algorithm"]["policies"]
    classes = [policies[name]["module"]["class_path"].rpartition(".")[2] for name in ("p0", "p1", "p2")]
    assert classes == ["PPOModule", "SACModule", "DQNModule"]
    envs = [policies[name]["module"]["env"] for name in ("p0", "p1", "p2")]
    assert envs == ["CartPole-v1", "Pendulum-v1", "CartPole-v1"]


@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_policy_ids_with_any_sign(sign: str, composed: Composer) -> None:
    assert composed(f"{sign}policy_ids=[p1]")["policy_ids"] == ["p1"]


@pytest.mark.parametrize("targets", [["onnx"], ["torch_export"], ["onnx", "torch_export"]])
def test_targets_are_chosen_together(targets: list[str], composed: Composer) -> None:
    chosen = set(composed(f"export=[{','.join(targets)}]")["export"]) - set(schema.EXPORT_KEYS)
    assert sorted(chosen) == targets


def test_a_folder_of_ones_own_is_searched(composed: Composer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "mine.yaml").write_text("env: Mine-v0\n")
    monkeypatch.setenv("RLPIPE_CONF", str(tmp_path))
    assert composed("module=mine")["module"]["env"] == "Mine-v0"
