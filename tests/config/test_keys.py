from __future__ import annotations

import pytest

from rlpipe.config.keys import is_declared, unknown_key, unknown_keys


def test_known_keys_pass() -> None:
    config = {"task": {"name": "x"}, "export": {"any": {"thing": 1}}, "algorithm": {"policies": {"p": {"env": None}}}}
    assert unknown_keys(config) == ()


def test_unknown_keys_are_found_at_every_depth() -> None:
    config = {"tsk": 1, "select": {"role": []}, "algorithm": {"policies": {"p": {"module": {"x": 1}, "envv": 2}}}}
    assert [found.key for found in unknown_keys(config)] == [
        "tsk", "select.role", "algorithm.policies.p.module.x", "algorithm.policies.p.envv",
    ]  # fmt: skip


def test_the_nearest_key_is_asked_for() -> None:
    found = unknown_key("algorithm.policies.p0.modul.env")
    assert found is not None
    assert (found.key, found.fix) == ("algorithm.policies.p0.modul", "did you mean algorithm.policies.p0.module?")


def test_a_key_below_a_plain_value_is_left_to_hydra() -> None:
    assert unknown_key("env.x") is None


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("device", "did you mean restore.device?"),
        ("seed", "did you mean evaluate.seed or algorithm.seed?"),
        ("algorithm.policies.p0.inference_only", "did you mean algorithm.policies.p0.module.inference_only?"),
        ("roles", "did you mean select.roles?"),
    ],
)
def test_a_key_that_lies_deeper_is_asked_for(key: str, fix: str) -> None:
    found = unknown_key(key)
    assert found is not None
    assert found.fix == fix


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("sorce.path", "did you mean source.path?"),
        ("taks", "did you mean task?"),
        ("sorce.pth", "did you mean source.path?"),
        ("artefact.path", "did you mean artifact.path?"),
        ("algorithm.lerner.loss", "did you mean algorithm.learner.loss?"),
        ("sorce.xyzzy", "did you mean source or restore?"),
    ],
)
def test_all_of_what_was_typed_is_compared(key: str, fix: str) -> None:
    found = unknown_key(key)
    assert found is not None
    assert found.fix == fix


def test_a_key_like_no_other_gets_no_question() -> None:
    found = unknown_key("xyzzy")
    assert found is not None
    assert found.fix.startswith("leave it out, or see all keys")


@pytest.mark.parametrize("key", ["env", "restore.device", "module.model_config", "algorithm.policies", "source"])
def test_the_schemas_own_keys(key: str) -> None:
    assert is_declared(key)


@pytest.mark.parametrize(
    "key", ["", "envv", "env.x", "module.model_config.actor", "algorithm.policies.p0", "export.onnx"]
)
def test_keys_below_what_is_free(key: str) -> None:
    assert not is_declared(key)
