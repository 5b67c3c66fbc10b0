from __future__ import annotations

from typing import Any

import pytest

from rlpipe.checkpoint.retention import Retention
from rlpipe.config.validation import read_settings
from rlpipe.errors import ConfigError
from rlpipe.exporters.onnx_profile import Profile
from rlpipe.exporters.targets import onnx
from rlpipe.pipeline.settings import RunSettings
from rlpipe.policies.graph_options import GraphOptions


@pytest.fixture(name="read")
def _read(composed: Any) -> Any:
    def read(*overrides: str) -> RunSettings:
        return read_settings(composed(*overrides), overrides=overrides, out_dir="out")

    return read


def test_the_defaults(read: Any) -> None:
    settings = read()
    assert settings.task == "info"
    assert settings.source.path is None
    assert settings.select.policy_ids is None
    assert settings.checkpoint.backend == "hdf5"
    assert sorted(settings.export.targets) == ["onnx", "torch_export"]
    assert (settings.trust, settings.rename, settings.steps, settings.env) == ((), {}, (), None)
    assert settings.out_dir == "out"


def test_values_arrive(read: Any) -> None:
    settings = read(
        "task=pipeline", "task.steps=[save,export]", "source=stable_baselines3", "source.path=m.zip",
        "source.policy_id=p7", "source.normalizer=none",
        "base.path=b", "base.on_mismatch=replace", "checkpoint=pickle", "checkpoint.path=out",
        "checkpoint.if_exists=replace", "policy_ids=[p1,'q*']", "select.roles=[inference]", "select.keys=['encoder/*']",
        "rename={p1: p7}", "restore.device=cuda:1", "export=[onnx]", "export.onnx.atol=1e-3", "artifact.path=art",
        "artifact.if_exists=replace",
        "evaluate.episodes=3", "evaluate.max_steps=9", "trust=[mine.*]", "env=X-v0", "checkpoints_dir=ck",
    )  # fmt: skip
    assert (settings.task, settings.steps) == ("pipeline", ("save", "export"))
    source = settings.source
    assert (source.kind, source.path) == ("stable_baselines3", "m.zip")
    assert (source.policy_id, source.normalizer) == ("p7", "none")
    assert (settings.base.path, settings.base.on_mismatch) == ("b", "replace")
    checkpoint = settings.checkpoint
    assert (checkpoint.backend, checkpoint.path, checkpoint.if_exists) == ("pickle", "out", "replace")
    select = settings.select
    assert (select.policy_ids, select.roles, select.keys) == (("p1", "q*"), ("inference",), ("encoder/*",))
    assert (settings.rename, settings.restore.device) == ({"p1": "p7"}, "cuda:1")
    assert list(settings.export.targets) == ["onnx"]
    assert isinstance(settings.export.targets["onnx"], onnx.Options)
    assert settings.export.targets["onnx"].atol == 1e-3
    assert (settings.artifact_path, settings.artifact_if_exists) == ("art", "replace")
    assert (settings.evaluate.episodes, settings.evaluate.max_steps) == (3, 9)
    assert (settings.trust, settings.env, settings.checkpoints_dir) == (("mine.*",), "X-v0", "ck")


def test_what_is_said_about_series_arrives(read: Any) -> None:
    settings = read(
        "task=save", "source.path=run", "source.which=best", "source.goal=min", "checkpoint.durability=none",
        "checkpoint.step=2000", "checkpoint.score=1.5", "checkpoint.keep_last=3", "checkpoint.keep_every=1000",
        "checkpoint.keep_best=2", "checkpoint.goal=min", "verify.sha256=show",
    )  # fmt: skip
    assert (settings.source.which, settings.source.goal) == ("best", "min")
    checkpoint = settings.checkpoint
    assert (checkpoint.durability, checkpoint.step, checkpoint.score) == ("none", 2000, 1.5)
    assert checkpoint.retention == Retention(keep_last=3, keep_every=1000, keep_best=2, goal="min")
    assert settings.verify.sha256 == "show"
    assert read("source.which=20000").source.which == 20_000
    assert read("source.which=latest").source.which == "latest"
    assert read(f"verify.sha256={'A' * 64}").verify.sha256 == "A" * 64
    assert read().checkpoint.retention.keeps_all


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("source.which=lates", "did you mean source.which=latest?"),
        ("source.which=-1", "latest, best, or a step"),
        ("source.which=true", "latest, best, or a step"),
        ("source.goal=maximum", "did you mean source.goal=max?"),
        ("checkpoint.durability=sync", "did you mean checkpoint.durability=fsync?"),
        ("checkpoint.step=-1", "a whole number of at least 0"),
        ("checkpoint.score=nan", "a finite number"),
        ("checkpoint.keep_last=0", "a whole number of at least 1"),
        ("checkpoint.keep_every=1000", "checkpoint.step: the step that this checkpoint is of"),
        ("checkpoint.keep_best=-1", "a whole number of at least 0"),
        ("checkpoint.goal=best", "one of max, min"),
        ("verify.sha256=abc", "64 hex digits, or show"),
        ("verify.sha256=abc", "verify.sha256=show tells"),
        ("verify.sha256=7", "found: the number 7\n  fix: verify.sha256=show tells"),
        ("verify.sha256=7", "expected: 64 hex digits, or show"),
    ],
)
def test_what_is_wrong_about_series_is_told(override: str, text: str, read: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read("task=save", override)
    assert override.partition("=")[0] in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        ("++source.filter_agent.p1=left", "++source.filter_agent.p2=right"),
        ("++source.filter_agent={p1: left, p2: right}",),
    ],
)
def test_agents_of_policies_arrive(overrides: tuple[str, ...], read: Any) -> None:
    numbered = read("++source.filter_agent.p1=0", "++source.filter_agent.p2=null")
    assert numbered.source.hints == {"filter_agent": {"p1": "0"}}
    assert read().source.hints == {}
    assert read("++source.filter_agent.p1=0", "++source.filter_agent.p2=null").source.hints == {
        "filter_agent": {"p1": "0"}
    }


@pytest.mark.parametrize("value", ["0.5", "true", "[left]", '""'])
def test_an_agent_is_a_name(value: str, read: Any) -> None:
    with pytest.raises(ConfigError, match=r"source\.filter_agent\.p1"):
        read(f"++source.filter_agent.p1={value}")


def test_an_old_id_may_be_one_that_no_checkpoint_has(read: Any) -> None:
    assert read("rename={left hand: left_hand}").rename == {"left hand": "left_hand"}
    with pytest.raises(ConfigError, match="left hand"):
        read("rename={p1: left hand}")


def test_what_is_said_about_exports_arrives(read: Any) -> None:
    settings = read(
        "export=[onnx,torch_export]", "export.jobs=2", "export.require=[onnx]", "export.onnx.timeout=60",
        "artifact.names={obs: [x, v]}", "artifact.metadata={kp: [1.5], robot: go1, legs: {count: 4}}",
        "verify.junit=out.xml",
    )  # fmt: skip
    assert sorted(settings.export.targets) == ["onnx", "torch_export"]
    assert (settings.export.jobs, settings.export.require) == (2, ("onnx",))
    assert settings.export.targets["onnx"].timeout == 60
    assert settings.labels.names == {"obs": ("x", "v")}
    assert settings.labels.metadata == {"kp": [1.5], "robot": "go1", "legs": {"count": 4}}
    assert settings.verify.junit == "out.xml"
    assert read().export.require is None


def test_overrides_and_config_are_recorded(read: Any) -> None:
    settings = read("task=save", "+policy_ids=[p1]")
    assert settings.provenance.overrides == ("task=save", "+policy_ids=[p1]")
    assert settings.provenance.config["policy_ids"] == ["p1"]


@pytest.mark.parametrize("sign", ["", "+", "++"])
@pytest.mark.parametrize(
    ("value", "expected", "found"),
    [
        ("p1", "a list of policy ids", "the text 'p1'"),
        ("[[p1]]", "a text", "a list in the list: ['p1']"),
        ("[p1,p1]", "policy ids, each once", "p1 more than once"),
        ("[]", "at least one of policy ids", "an empty list"),
        ("[1e3]", "a text", "the number 1000.0"),
        ("[true]", "a text", "the truth value True"),
        ("[null]", "a text", "null"),
        ("[7]", "a text", "the number 7"),
        ("[{a: 1}]", "a text", "a mapping with a"),
        ("['']", "a text", "an empty text"),
        ("7", "a list of policy ids", "the number 7"),
        ("{p1: p2}", "a list of policy ids", "a mapping with p1"),
        ("[a/b]", "letters, digits", "'a/b'"),
    ],
)
def test_policy_ids_of_the_wrong_kind_get_one_line(sign: str, value: str, expected: str, found: str, read: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"{sign}policy_ids={value}")
    assert caught.value.exit_code == 2
    assert caught.value.subject.startswith("policy_ids")
    assert "\n" not in caught.value.subject
    assert expected in caught.value.expected
    assert found in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("value", "fix"), [("p1", "'policy_ids=[p1]'"), ("", "'policy_ids=[...]'"), ("[[p1,p2]]", "'policy_ids=[p1,p2]'")]
)
def test_what_to_type_instead(value: str, fix: str, read: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"policy_ids={value}")
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["+polcy_ids=[p1]"], "polcy_ids"),
        (["+select.role=[inference]"], "did you mean select.roles?"),
        (["+algorithm.policies.p0.modul=1"], "did you mean algorithm.policies.p0.module?"),
        (["select.roles=inference"], "'select.roles=[inference]'"),
        (["select.roles=[infrence]"], "did you mean 'select.roles=[inference]'?"),
        (["rename=p1"], "'rename={p1: p7}'"),
        (["rename={p1: p7, p2: p7}"], "p7 more than once"),
        (["rename={p1: 7}"], "the number 7"),
        (["restore.device=gpu 0"], "a device such as cpu"),
        (["source.path=''"], "source.path"),
        (["checkpoint.if_exists=overwrite"], "one of error, replace"),
        (["base.on_mismatch=ignore"], "one of error, replace"),
        (["evaluate.episodes=0"], "a whole number of at least 1"),
        (["evaluate.max_steps=0"], "a whole number of at least 1"),
        (["trust=mine"], "'trust=[mine]'"),
        (["task=pipeline", "task.steps=save"], "'task.steps=[save]'"),
        (["task=pipeline", "task.steps=[save,exprot]"], "did you mean 'task.steps=[save,export]'?"),
        (["task=pipeline", "task.steps=[]"], "an empty list"),
        (["task=export", "export=[]"], "at least one of "),
        (["export=[torch_export]", "+export.onnx.atol=1"], "'export=[onnx,torch_export]' export.onnx"),
        (["+export.onxx.atol=1"], "a target that does not exist"),
        (["export=[onnx]", "export.require=[torch_export]"], "select it: 'export=[onnx,torch_export]'"),
        (["export.require=[onxx]"], "did you mean 'export.require=[onnx]'?"),
        (["export.jobs=0"], "a whole number of at least 1"),
        (["artifact.names=[a]"], "tensor names with lists"),
        (["artifact.names={obs: x}"], "a list of names"),
        (["artifact.metadata={kp: nan}"], "finite numbers"),
        (["+export.onnx.atoll=1"], "did you mean export.onnx.atol?"),
        (["export.onnx.atol=small"], "a number"),
        (["+module.x=1"], "module.x"),
        (["+export.onyx.atol=1"], "did you mean export.onnx?"),
        (["export=[onnx]", "export.torch_export.atol=1"], "select it: 'export=[onnx,torch_export]'"),
        (["export.onnx.atol=-1"], "export.onnx.atol=1e-5"),
        (["export.torch_export.rtol=nan"], "export.torch_export.rtol=1e-5"),
        (["evaluate.episodes=many"], "expected: a whole number\n  found: the text 'many'"),
        (["evaluate.episodes.x=1"], "found: a mapping with x"),
        (["restore.device=null"], "a device such as cpu"),
        (["algorithm.policies.p0.module.inference_only=maybe"], "p0.module.inference_only=true or"),
        (["source.policy_id=7"], "quote it as it is spelt: 'source.policy_id=\"7\"'"),
    ],
)
def test_faults(overrides: list[str], line: str, read: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read(*overrides)
    assert caught.value.exit_code == 2
    assert line in str(caught.value)
    assert all((caught.value.subject, caught.value.expected, caught.value.found, caught.value.fix))


def test_all_faults_come_in_one_error(read: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read("policy_ids=p1", "select.roles=[infrence]", "evaluate.episodes=many", "export.onnx.atol=small", "envv=x")
    text = str(caught.value)
    assert text.startswith("5 things")
    assert all(key in text for key in ("policy_ids", "select.roles", "evaluate.episodes", "export.onnx.atol", "envv"))
    assert text.count("; fix: ") == 5


def test_a_class_named_by_the_config_is_trusted(read: Any) -> None:
    assert read("+algorithm.policies={p9: {module: {class_path: mine.Net}}}").trust == ("mine.Net",)


@pytest.mark.parametrize("name", ["rlpipe", "rsl_rl"])
def test_a_profile_is_read_by_its_name(name: str, read: Any) -> None:
    profile = read("export=[onnx]", f"export.onnx.profile={name}").export.targets["onnx"].profile
    assert profile.id == name
    assert (profile == Profile()) == (name == "rlpipe")
    assert profile.outputs.get("action", {}).get("name") == {"rlpipe": None, "rsl_rl": "actions"}[name]


def test_a_profile_of_ones_own(read: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_profiles/onnx").mkdir(parents=True)
    (tmp_path / "_profiles/onnx/game.yaml").write_text("id: game\nbatch: fixed\noperators: [Gemm]\n")
    monkeypatch.setenv("RLPIPE_CONF", str(tmp_path))
    profile = read("export=[onnx]", "export.onnx.profile=game").export.targets["onnx"].profile
    assert (profile.id, profile.batch, profile.operators) == ("game", "fixed", ("Gemm",))
    (tmp_path / "_profiles/onnx/game.yaml").write_text("id: game\nbatches: fixed\n")
    with pytest.raises(ConfigError, match=r"did you mean export\.onnx\.profile\.batch\?"):
        read("export=[onnx]", "export.onnx.profile=game")


def test_a_profile_that_is_not_there(read: Any) -> None:
    with pytest.raises(ConfigError, match=r"did you mean export\.onnx\.profile=rsl_rl\?"):
        read("export=[onnx]", "export.onnx.profile=rslrl")


def test_what_of_a_policy_is_exported(read: Any) -> None:
    words = ["export.mode=stochastic", "export.action=raw", "export.outputs=[log_std,mean]"]
    graph = read("task=export", *words).export.graph
    assert graph == GraphOptions(mode="stochastic", action="raw", outputs=("mean", "log_std"))
    assert read("task=export", "export.component=encoder").export.graph.component == "encoder"
    assert read("task=export").export.graph == GraphOptions()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["export.mode=random"], "export.mode"),
        (["export.action=joint"], "export.action"),
        (["export.outputs=[q]"], "export.outputs"),
        (["export.component=encoder", "export.mode=stochastic"], "no export.mode"),
    ],
)
def test_what_cannot_be_exported_is_one_clear_line(read: Any, words: list[str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("task=export", *words)
    assert named in str(caught.value)


@pytest.mark.parametrize(("word", "expected"), [("true", ""), ("moves", "moves"), ("null", None), ("false", None)])
def test_where_a_mask_comes_from(read: Any, word: str, expected: str | None) -> None:
    settings = read("task=save", f"module.action_mask={word}")
    assert settings.algorithm.policies["p0"].module.action_mask == expected
