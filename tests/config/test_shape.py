from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from rlpipe.config.findings import Findings
from rlpipe.config.schema import PolicyConfig, RootConfig
from rlpipe.config.shape import shaped

WRONG = ("text", 3, 1.5, True, None, [1], {"a": 1})


def leaves(annotation: Any, key: str = "") -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Dotted keys whose types the schema knows."""
    for name, hint in get_type_hints(annotation).items():
        below = f"{key}.{name}".lstrip(".")
        if is_dataclass(hint):
            yield from leaves(hint, below)
        elif hint is not Any and not str(hint).startswith("dict"):
            kinds = get_args(hint) or (hint,)
            yield below, (*kinds, int) if float in kinds else kinds


LEAVES = [*leaves(RootConfig), *leaves(PolicyConfig, "algorithm.policies.p")]


def nested(key: str, value: Any) -> Any:
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def at(config: Any, key: str) -> Any:
    for name in key.split("."):
        config = config[name]
    return config


def test_there_are_leaves() -> None:
    assert {"evaluate.episodes", "env", "algorithm.policies.p.module.inference_only"} <= {key for key, _ in LEAVES}


@pytest.mark.parametrize(("key", "kinds"), LEAVES)
def test_every_value_of_a_wrong_type_is_one_whole_finding(key: str, kinds: tuple[Any, ...]) -> None:
    for value in WRONG:
        findings = Findings()
        made = shaped(nested(key, value), findings)
        if type(value) in kinds:
            assert findings.found == []
            assert at(made, key) == value
        else:
            (finding,) = findings.found
            assert finding.key == key
            assert all((finding.expected, finding.found, finding.fix))
            assert type(at(made, key)) in kinds


def test_what_is_missing_has_the_default_of_the_schema() -> None:
    findings = Findings()
    assert shaped({}, findings) == asdict(RootConfig())
    policies = shaped({"algorithm": {"policies": {"p": None, "q": {"env": "x"}}}}, findings)["algorithm"]["policies"]
    assert policies == {"p": asdict(PolicyConfig()), "q": asdict(PolicyConfig(env="x"))}
    assert findings.found == []


def test_a_fitting_config_stays_as_it_is(composed: Any) -> None:
    config, findings = composed("task=save", "module.model_config.x.y=1", "rename.a=b"), Findings()
    assert shaped(config, findings) == config
    assert findings.found == []


@pytest.mark.parametrize("value", [None, 3, "x", [1]])
@pytest.mark.parametrize("key", ["source", "algorithm.policies", "export", "module", "algorithm"])
def test_a_node_is_a_mapping(key: str, value: Any) -> None:
    findings = Findings()
    made = shaped(nested(key, value), findings)
    (finding,) = findings.found
    assert finding.key == key
    assert "a mapping" in finding.expected
    assert finding.fix
    assert at(made, key) == at(asdict(RootConfig()), key)


def test_unknown_keys_are_noted_and_left_out() -> None:
    findings = Findings()
    made = shaped({"envv": 1, "source": {"pth": "x"}}, findings)
    assert [(finding.key, finding.fix) for finding in findings.found] == [
        ("envv", "did you mean env?"),
        ("source.pth", "did you mean source.path?"),
    ]
    assert made == asdict(RootConfig())
