"""Programs act like the torch modules that they come from; the numpy runner is what runs them here."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn

from rlpipe.errors import UnsupportedModuleError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.program.program import DTYPES, KINDS
from rlpipe.exporters.program.walk import program_of
from rlpipe.modules.activations import ACTIVATIONS
from rlpipe.snapshot.spaces import Box
from tests.exporters.graphs import Example, normalised, unbounded
from tests.exporters.program.networks import NETWORKS
from tests.exporters.program.running import example, loaded, require_same, traced, truth


@pytest.fixture(scope="module", params=NETWORKS)
def name(request: pytest.FixtureRequest) -> str:
    """All tests of one network come together, since its program is kept only that long."""
    return str(request.param)


def test_it_acts_like_torch_at_every_batch_size(name: str, tmp_path: Path) -> None:
    step = loaded(traced(name), "numpy", tmp_path)
    feeds, actions = truth(name)
    for batch in (1, 2, 33, len(actions["action"])):
        found = step({key: array[-batch:] for key, array in feeds.items()})
        require_same(found, {key: array[-batch:] for key, array in actions.items()})


def test_an_empty_batch_gives_an_empty_answer(name: str, tmp_path: Path) -> None:
    step = loaded(traced(name), "numpy", tmp_path)
    found = step({key: array[:0] for key, array in traced(name).sample.items()})
    assert {key: len(array) for key, array in found.items()} == {"action": 0}


def test_it_acts_like_torch_in_c(name: str, tmp_path: Path) -> None:
    step = loaded(traced(name), "c99", tmp_path)
    feeds, actions = truth(name)
    require_same(step(feeds), actions)


def test_nan_and_infinity_go_the_way_they_go_in_torch(name: str, tmp_path: Path) -> None:
    if name not in ("maths", "moves", "sums"):  # elsewhere torch's own kernels disagree about infinity
        pytest.skip("has no operators of its own")
    rng = np.random.default_rng(0)
    feeds = {key: array[:40].copy() for key, array in truth(name)[0].items()}
    for array in feeds.values():
        chosen = rng.random(array.shape) < 0.15
        array[chosen] = rng.choice([np.nan, np.inf, -np.inf], chosen.sum())
    for target_id in ("numpy", "c99"):
        require_same(loaded(traced(name), target_id, tmp_path)(feeds), example(name).compute(feeds))


MET: set[str] = set()


def test_operations_hold_to_their_description(name: str) -> None:
    with captured():
        program = program_of(traced(name))
    known = {*program.constants, *(tensor.name for tensor in program.inputs.values())}
    for operation in program.operations:
        MET.add(operation.kind)
        assert tuple(operation.attributes) == KINDS[operation.kind]
        assert set(operation.inputs) <= known
        assert operation.output not in known
        known.add(operation.output)
    assert set(program.tensors) == known
    assert {tensor.dtype for tensor in program.tensors.values()} <= DTYPES
    assert all(array.flags.c_contiguous for array in program.constants.values())


def test_every_kind_of_operation_was_met() -> None:
    assert set(KINDS) == MET


def test_a_plain_network_is_a_short_list() -> None:
    with captured():
        program = program_of(normalised().traced())
    kinds = " ".join(operation.kind for operation in program.operations)
    assert kinds == "sub div maximum minimum linear tanh linear tanh linear maximum minimum"


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    widths=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    names=st.lists(st.sampled_from(sorted(ACTIVATIONS)), min_size=3, max_size=3),
    seed=st.integers(0, 99),
)
def test_random_networks(widths: list[int], names: list[str], seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for index in range(len(widths) - 1):
        layers += [nn.Linear(widths[index], widths[index + 1]), getattr(nn, ACTIVATIONS[names[index]])()]
    made = Example(nn.Sequential(*layers).eval(), unbounded(widths[0]), unbounded(widths[-1]))
    with captured():
        graph = made.traced()
    feeds = {"obs": np.random.default_rng(seed).normal(0, 3, (5, widths[0])).astype(np.float32)}
    for target_id in ("numpy", "c99"):
        require_same(loaded(graph, target_id, tmp_path)(feeds), made.compute(feeds))


def test_the_number_of_a_row_is_known_to_no_program() -> None:
    class Counts(nn.Module):
        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            return obs + 1e-9 * torch.arange(obs.shape[0])[:, None]

    with captured(), pytest.raises(UnsupportedModuleError, match="framework") as caught:
        program_of(Example(Counts().eval(), unbounded(4), unbounded(4)).traced())
    assert "counted off" in caught.value.found


class Inner(nn.Module):
    """Applies one function, somewhere inside."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return UNSUPPORTED[self.name](x)


class Outer(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.odd = Inner(name)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.odd(self.net(obs))


UNSUPPORTED = {
    "bessel_j0": torch.special.bessel_j0,
    "cumsum": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(1)[0],
    "cummax": lambda x: x.cummax(1)[0],
    "float16": lambda x: x.to(torch.float16).to(torch.float32),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_programs_lack_is_named_with_its_place(name: str) -> None:
    made = Example(Outer(name).eval(), unbounded(4), Box.uniform(-1, 1, (4,)))
    with captured(), pytest.raises(UnsupportedModuleError, match=r"odd \(Inner\)") as caught:
        program_of(made.traced())
    assert name in caught.value.found


def test_an_operator_of_another_library_is_not_taken_for_torchs_own() -> None:
    with torch.library._scoped_library("rlpipe_tests", "DEF") as library:
        library.define("relu(Tensor x) -> Tensor")
        library.impl("relu", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("relu", torch.empty_like, "Meta")

        class Odd(nn.Module):
            def forward(self, obs: torch.Tensor) -> torch.Tensor:
                return torch.ops.rlpipe_tests.relu(obs)

        made = Example(Odd().eval(), unbounded(4), unbounded(4))
        with captured(), pytest.raises(UnsupportedModuleError, match="framework") as caught:
            program_of(made.traced())
    assert caught.value.found == "rlpipe_tests.relu.default"


@pytest.mark.parametrize(("kind", "leaf"), [("observation", "obs"), ("action", "action")])
def test_numbers_of_a_space_are_not_laid_to_the_module(kind: str, leaf: str) -> None:
    narrow, usual = unbounded(4, dtype="float16"), unbounded(4)
    spaces = (narrow, usual) if kind == "observation" else (usual, narrow)
    made = Example(Recast(getattr(torch, str(spaces[1].dtype))).eval(), *spaces)
    with captured(), pytest.raises(UnsupportedModuleError, match=f"the {kind} space has numbers") as caught:
        program_of(made.traced())
    assert caught.value.found == f"{leaf} of float16"
    assert caught.value.fix == f"make the environment's {kind} space float32, or export to onnx"


class Recast(nn.Module):
    """(B, 4) -> (B, 4) in a dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = nn.Linear(4, 4), dtype

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layer(obs.to(torch.float32)).to(self.dtype)
