from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.modules.torch.sac import SACModule
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box, Dict, Discrete, Space
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.spec_fit import spec_findings

BOX = Box.uniform(-1, 1, (3,))
MOST = float(np.finfo(np.float32).max)
UNBOUNDED = Box.uniform(-np.inf, np.inf, (3,))
BOUNDED = Box.uniform(-MOST, MOST, (3,))


def spec(observation: Space = BOX, action: Space = BOX, kind: Any = PPOModule) -> Spec:
    return PolicySpec.default(kind, observation, action).to_spec()


def severities(expected: Spec, found: Spec) -> set[str]:
    return {finding.severity for finding in spec_findings(expected, found)}


@pytest.mark.parametrize(
    ("expected", "found", "outcome"),
    [
        (spec(), spec(), set()),
        (spec(UNBOUNDED), spec(BOUNDED), set()),
        (spec(action=UNBOUNDED), spec(action=BOUNDED), set()),
        (spec(Dict({"a": BOX, "b": BOX})), spec(Dict({"b": BOX, "a": BOX})), set()),
        (spec(), spec(Box.uniform(-2, 1, (3,))), {"warning"}),
        (spec(), spec(Box.uniform(-1, 1, (3,), np.dtype(np.float64))), {"warning"}),
        (spec(), spec(Box.uniform(-1, 1, (4,))), {"error"}),
        (spec(), spec(action=Box.uniform(-2, 1, (3,))), {"error"}),
        (spec(action=Discrete(2)), spec(action=Discrete(3)), {"error"}),
        (spec(action=Discrete(2)), spec(action=Discrete(2, start=1)), {"error"}),
        (spec(Discrete(2)), spec(Discrete(2, start=1)), {"error"}),
        (spec(), spec(kind=SACModule), {"error"}),
        (spec(), Spec("other.Class"), {"error"}),
    ],
)
def test_differences_that_matter_are_errors(expected: Spec, found: Spec, outcome: set[str]) -> None:
    found_severities = severities(expected, found)
    assert found_severities == outcome or (outcome == {"error"} and "error" in found_severities)


def test_a_finding_names_its_place_and_both_sides() -> None:
    (finding, *_) = spec_findings(spec(), spec(action=Box.uniform(-2, 1, (3,))))
    assert "action" in finding.text
    assert "-1" in finding.text
    assert "-2" in finding.text


def test_what_is_no_space_is_compared_as_it_is() -> None:
    one, other = (Spec("a.B", {"observation_space": {"type": kind}}) for kind in ("x", "y"))
    assert severities(one, other) == {"error"}
