"""The C sources, built and run by the machine's compilers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlpipe.errors import ConfigError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.golden import golden
from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.signature import Signature, TensorSpec
from rlpipe.exporters.targets import c99 as target
from rlpipe.snapshot.spaces import Dict
from tests.conformance.target_suite import CASES, ESSENTIALS, TargetSuite, Written
from tests.exporters.graphs import EXAMPLES, Example, unbounded
from tests.exporters.steps import STEPS

Array = np.ndarray[Any, Any]
FILES = ["CMakeLists.txt", "policy.c", "policy.h", "policy.hpp", "selftest.c"]
C99 = ("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
CPP17 = ("g++", "-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic")
PREFIX = "policy_0123456789ab"

REPLAY = """
#include "policy.h"
#include <stdio.h>
#include <string.h>
#define COUNT(SIDE) PREFIX_upper_##SIDE
static size_t bytes(const PREFIX_tensor *t)
{
    const char *digits = t->dtype + strcspn(t->dtype, "0123456789");
    return (size_t)t->size * (strncmp(digits, "64", 2) == 0 ? 8 : strncmp(digits, "32", 2) == 0 ? 4 : 1);
}
int main(void)
{
    static PREFIX_state state;
    static PREFIX_input input;
    static PREFIX_output output;
    PREFIX_init(&state);
    for (;;) {
        for (int i = 0; i < COUNT(INPUTS); ++i) {
            const PREFIX_tensor *t = &PREFIX_input_table[i];
            if (fread((t->kept ? (char *)&state : (char *)&input) + t->offset, bytes(t), 1, stdin) != 1)
                return 0;
        }
        PREFIX_step(&state, &input, &output);
        for (int i = 0; i < COUNT(OUTPUTS); ++i) {
            const PREFIX_tensor *t = &PREFIX_output_table[i];
            fwrite((t->kept ? (char *)&state : (char *)&output) + t->offset, bytes(t), 1, stdout);
        }
    }
}
"""
"""Reads the inputs of a step one after the other, writes its outputs in the same way, by the tables alone."""


def run(*command: object, data: bytes = b"", folder: Path | None = None) -> bytes:
    done = subprocess.run(list(map(str, command)), input=data, capture_output=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def rows_of(specs: Any) -> np.dtype[Any]:
    """The tensors of one step, one after the other."""
    return np.dtype([(spec.name, spec.dtype, spec.shape) for spec in specs])


class TestC99(TargetSuite):
    target_id = "c99"

    def act(self, file: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
        folder = file.parent.with_suffix(".replay")
        folder.mkdir(exist_ok=True)
        if not (folder / "replay").exists():
            text = REPLAY.replace("PREFIX_upper", PREFIX.upper()).replace("PREFIX", PREFIX)
            (folder / "replay.c").write_text(text)
            run(*C99, "-O2", f"-I{file.parent}", folder / "replay.c", file, "-lm", "-o", folder / "replay")
        signature = next(make().signature for name, make in CASES.items() if re.match(rf"{name}\d", file.parent.name))
        given = np.zeros(len(next(iter(feeds.values()))), rows_of(signature.inputs))
        for spec in signature.inputs:
            given[spec.name] = feeds[spec.name]
        found = np.frombuffer(run(folder / "replay", data=given.tobytes()), rows_of(signature.outputs))
        return {spec.name: found[spec.name] for spec in signature.outputs}

    def essentials(self, file: Path) -> dict[str, str]:
        (text,) = re.findall(r"^/\* essentials: (.*) \*/$", file.read_text(encoding="ascii"), re.MULTILINE)
        return dict(json.loads(text))

    def test_it_writes_one_file(self, written: Written) -> None:
        """The source, its header, the same for C++, a self-test, and what builds them."""
        assert sorted(path.name for path in written.file.parent.iterdir()) == FILES

    @pytest.mark.parametrize("compiler", [C99, CPP17], ids=["c99", "c++17"])
    @pytest.mark.parametrize("level", ["-O0", "-O3"])
    def test_it_builds_without_a_warning_and_the_self_test_passes(
        self, written: Written, compiler: tuple[str, ...], level: str, tmp_path: Path
    ) -> None:
        folder = written.file.parent
        run(*compiler, level, folder / "selftest.c", folder / "policy.c", "-lm", "-o", tmp_path / "selftest")
        said = run(tmp_path / "selftest").decode()
        assert re.match(r"0123456789ab: \d+ steps, 0 numbers differ", said)

    def test_nothing_is_read_or_written_out_of_place(self, written: Written, tmp_path: Path) -> None:
        folder, checks = written.file.parent, "-fsanitize=address,undefined,float-cast-overflow"
        sources = (folder / "selftest.c", folder / "policy.c")
        run(*C99, "-g", "-fno-sanitize-recover=all", checks, *sources, "-lm", "-o", tmp_path / "selftest")
        run(tmp_path / "selftest")

    def test_it_needs_libm_alone_and_keeps_no_globals(self, written: Written, tmp_path: Path) -> None:
        run(*C99, "-O2", "-c", written.file, "-o", tmp_path / "policy.o")
        symbols = [line.split()[-2:] for line in run("nm", tmp_path / "policy.o").decode().splitlines()]
        needed = {name for kind, name in symbols if kind == "U"}
        maths = {"tanhf", "expf", "logf", "memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"}
        assert needed <= maths
        assert {kind.upper() for kind, _ in symbols} <= {"U", "T", "R"}
        assert all(name.startswith(PREFIX) for kind, name in symbols if kind in "TRDB")


def test_all_files_are_the_same_again(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        TestC99.write("normalised", tmp_path / folder)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_weights_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    written = TestC99.write("normalised", tmp_path)
    text = written.file.read_text()
    (numbers,) = re.findall(r"static const float \w+_panels\[1536\] = \{([^}]*)\}", text)
    found = [float.fromhex(number.strip().removesuffix("f")) for number in numbers.split(",")]
    weight = written.example.module.get_parameter("net.0.weight")
    assert found == torch.cat([panel.T.flatten() for panel in torch.split(weight.detach(), 32)]).tolist()


def test_two_policies_go_into_one_program(tmp_path: Path) -> None:
    for name, prefix in (("greedy", "walker"), ("normalised", "arm")):
        (tmp_path / prefix).mkdir()
        with captured():
            target.export(EXAMPLES[name]().traced(), tmp_path / prefix / "policy.c", target.Options(prefix=prefix), {})
    (tmp_path / "main.cpp").write_text(
        """
        #include "arm/policy.hpp"
        #include "walker/policy.hpp"
        #include <cstring>
        int main()
        {
            arm::Policy arm_policy;
            walker::Policy walker_policy;
            walker_policy.reset();
            const auto walks = walker_policy(walker::Input{});
            const auto moves = arm_policy(arm::Input{});
            const bool named = std::strcmp(walker_input_table[0].name, "obs") == 0 && arm_input_table[0].size == 24;
            return named && walks.action[0] >= 2 && moves.action[5] <= 1.0f ? 0 : 1;
        }
        """
    )
    for prefix in ("walker", "arm"):
        run(*C99, "-O2", "-c", tmp_path / prefix / "policy.c", "-o", tmp_path / f"{prefix}.o")
    objects = (tmp_path / "walker.o", tmp_path / "arm.o")
    run("g++", *CPP17[3:], f"-I{tmp_path}", tmp_path / "main.cpp", *objects, "-lm", "-o", tmp_path / "main")
    run(tmp_path / "main")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_cmake_builds_it_and_runs_the_self_test(tmp_path: Path) -> None:
    TestC99.write("greedy", tmp_path)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")
    assert b"100% tests passed" in run("ctest", folder=tmp_path / "build")


def test_the_self_test_finds_a_wrong_weight(tmp_path: Path) -> None:
    file = TestC99.write("ignores", tmp_path).file
    text = file.read_text()
    first = re.search(r"_panels\[\d+\] = \{\n([^,]+),", text)
    assert first is not None
    file.write_text(text[: first.start(1)] + "0.75f" + text[first.end(1) :])
    run(*C99, tmp_path / "selftest.c", file, "-lm", "-o", tmp_path / "selftest")
    assert subprocess.run([tmp_path / "selftest"], check=False, capture_output=True).returncode == 1


class Memory(nn.Module):
    """An LSTM that forgets where an episode starts, and a second state that is the first one of the step before."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(3, 5), nn.Linear(5, 2)

    def forward(
        self, start: torch.Tensor, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, last: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        kept = 1 - start[:, None].to(torch.float32)
        new_hidden, new_cell = self.cell(obs, (hidden * kept, cell * kept))
        return self.head(new_hidden) + last[:, :2] * kept, new_hidden, new_cell, hidden * kept


def tensors(*rows: tuple[str, str, tuple[int, ...]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name=name, dtype=dtype, shape=shape) for name, dtype, shape in rows)


STATES = ("state.0", "state.1", "state.2")
REMEMBERING = Signature(
    inputs=tensors(
        ("episode_start", "bool", ()), ("obs", "float32", (3,)), *((name, "float32", (5,)) for name in STATES)
    ),
    outputs=tensors(("action", "float32", (2,)), *((f"{name}.next", "float32", (5,)) for name in STATES)),
)


@pytest.fixture(scope="module")
def remembering() -> ExportGraph:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    sample = {spec.name: rng.normal(size=(64, *spec.shape)).astype(spec.dtype) for spec in REMEMBERING.inputs}
    with captured():
        return export_graph(Memory().eval(), REMEMBERING, sample)


def put(graph: ExportGraph, folder: Path, *, prefix: str = "") -> None:
    with captured():
        target.export(graph, folder / "policy.c", target.Options(prefix=prefix), {})


def test_memory_lies_in_the_state(remembering: ExportGraph, tmp_path: Path) -> None:
    """A C program that knows nothing of memory, against torch, which is handed it from step to step."""
    put(remembering, tmp_path, prefix="p")
    (tmp_path / "replay.c").write_text(
        """
        #include "policy.h"
        #include <stdio.h>
        int main(void)
        {
            p_state state;
            p_input input;
            p_output output;
            p_init(&state);
            for (int i = 0; fread(&input, sizeof input, 1, stdin) == 1; ++i) {
                if (i == 7)
                    p_reset(&state);
                p_step(&state, &input, &output);
                fwrite(&output, sizeof output, 1, stdout);
            }
            return 0;
        }
        """
    )
    run(*C99, "-O2", tmp_path / "replay.c", tmp_path / "policy.c", "-lm", "-o", tmp_path / "replay")
    observed = remembering.sample["obs"][:16]
    found = np.frombuffer(run(tmp_path / "replay", data=observed.tobytes()), np.float32).reshape(-1, 2)
    states = [torch.zeros(1, 5)] * 3
    for step, row in enumerate(observed):
        start = torch.tensor([step in (0, 7)])
        with torch.no_grad():
            action, *states = remembering.module(start, torch.tensor(row[None]), *states)
        np.testing.assert_allclose(found[step], action[0].numpy(), atol=1e-6)


def test_memory_can_be_given_from_outside(remembering: ExportGraph, tmp_path: Path) -> None:
    put(remembering, tmp_path)
    found = target.load(str(tmp_path / "policy.c"))(remembering.sample)
    with torch.no_grad():
        expected = remembering.module(*(torch.tensor(remembering.sample[spec.name]) for spec in REMEMBERING.inputs))
    for spec, tensor in zip(REMEMBERING.outputs, expected, strict=True):
        np.testing.assert_allclose(found[spec.name], tensor.numpy(), atol=1e-6)


def test_the_self_test_of_a_memory_plays_two_episodes(remembering: ExportGraph, tmp_path: Path) -> None:
    put(remembering, tmp_path)
    text = (tmp_path / "selftest.c").read_text()
    (begins,) = re.findall(r"begins\[STEPS\] = \{([01, ]*)\}", text)
    assert begins.count("1") == 2
    for compiler in (C99, CPP17):
        run(*compiler, tmp_path / "selftest.c", tmp_path / "policy.c", "-lm", "-o", tmp_path / "selftest")
        run(tmp_path / "selftest")
    text = (tmp_path / "policy.c").read_text()
    (tmp_path / "forgets.c").write_text(re.sub(r"state->state_1\[i0\] = .*;", "state->state_1[i0] = 0.0f;", text))
    run(*C99, tmp_path / "selftest.c", tmp_path / "forgets.c", "-lm", "-o", tmp_path / "selftest")
    assert subprocess.run([tmp_path / "selftest"], check=False, capture_output=True).returncode == 1


def test_the_self_test_replays_golden_vectors(tmp_path: Path) -> None:
    """Single steps from states that the policy met, and steps in a row."""
    example = STEPS["remembers"]()
    with captured():
        graph = replace(example.traced(), golden=golden(example.reference(), np.arange(9)))
    put(graph, tmp_path)
    text = (tmp_path / "selftest.c").read_text()
    assert re.findall(r"#define (\w+) (\d+)", text) == [("ROWS", "9"), ("STEPS", "80")]
    build = (*C99, tmp_path / "selftest.c", tmp_path / "policy.c", "-lm", "-o", tmp_path / "selftest")
    run(*build)
    assert b"89 steps, 0 numbers differ" in run(tmp_path / "selftest")
    changed = text.index("wanted_state_1[ROWS][16] = {") + len("wanted_state_1[ROWS][16] = {\n{")
    (tmp_path / "selftest.c").write_text(f"{text[:changed]}1.0f + {text[changed:]}")
    run(*build)
    assert (
        b"89 steps, 1 numbers differ"
        in subprocess.run([tmp_path / "selftest"], check=False, capture_output=True).stdout
    )


def test_a_small_policy_is_small(tmp_path: Path) -> None:
    file = TestC99.write("normalised", tmp_path).file
    run(*C99, "-O3", "-c", file, "-o", tmp_path / "policy.o")
    assert (tmp_path / "policy.o").stat().st_size < 60_000
    assert len((tmp_path / "policy.hpp").read_text().splitlines()) <= 40


class Awkward(nn.Module):
    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.to(torch.float32) for x in inputs], dim=1)


def test_awkward_names_become_identifiers(tmp_path: Path) -> None:
    names = ["a.b", "a_b", "größe", 'q"?\\', "/* x */"]
    space = Dict({name: unbounded(1) for name in names})
    example = Example(Awkward().eval(), space, unbounded(5))
    with captured():
        target.export(example.traced(), tmp_path / "policy.c", target.Options(), {"note": "*/ // ??/ é \\"})
    feeds = {spec.name: np.full((2, 1), index, np.float32) for index, spec in enumerate(example.signature.inputs)}
    found = target.load(str(tmp_path / "policy.c"))(feeds)
    assert found["action"].tolist() == [[0, 1, 2, 3, 4]] * 2
    assert TestC99().essentials(tmp_path / "policy.c") == {"note": "*/ // ??/ é \\"}


@pytest.mark.parametrize("prefix", ["Walker", "2legs", "a-b", "a b", "_x"])
def test_a_prefix_that_is_no_name_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        target.Options(prefix=prefix)


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "gcc" in str(target.missing_dependency())


def test_essentials_are_those_of_the_suite() -> None:
    assert ESSENTIALS["rlpipe.fingerprint"] == PREFIX.removeprefix("policy_")
