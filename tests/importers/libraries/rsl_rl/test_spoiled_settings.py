"""Settings with a spoiled line: they are understood, say nothing, or are refused by an error that says so."""

from __future__ import annotations

import random
from contextlib import suppress
from math import inf
from pathlib import Path

import pytest

from rlpipe.errors import RlpipeError
from rlpipe.importers.libraries.rsl_rl import Options, read
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box
from tests.importers.libraries.rsl_rl.test_importer import run_of

VALUES = ("null", "[]", "{}", "3", "-1.5e400", ".nan", "x", "[1, 2]", "{a: 1}", "true", "!!python/tuple [1]", "'*'")


@pytest.mark.parametrize("file", ["params/agent.yaml", "params/env.yaml", "io_descriptors/IO_descriptors.yaml"])
def test_a_spoiled_line(file: str, tmp_path: Path) -> None:
    path = run_of("v5_mlp", tmp_path)
    lines = (path.parent / file).read_text().splitlines()
    draw = random.Random(0)
    for _ in range(60):
        spoiled = list(lines)
        at = draw.randrange(len(lines))
        start = spoiled[at].partition(":")[0]
        spoiled[at] = draw.choice([f"{start}: {draw.choice(VALUES)}", f"- {spoiled[at]}", start[:-1], ""])
        (path.parent / file).write_text("\n".join(spoiled))
        with suppress(RlpipeError):
            found = read(path, Options(joint_names=draw.choice([None, ("LF_HAA", "LF_HFE", "LF_KFE")])))
            assert PolicySpec.from_spec(found.snapshot.spec).observation_space == Box.uniform(-inf, inf, (8,))
