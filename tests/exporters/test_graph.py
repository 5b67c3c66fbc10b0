"""What cannot be exported is refused with a reason, never traced into something else."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlpipe.errors import SpecError, UnsupportedModuleError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.signature import signature_of
from rlpipe.snapshot.spaces import Box
from tests.exporters.graphs import EXAMPLES, normalised, unbounded

SIGNATURE = signature_of(unbounded(4), Box.uniform(-1, 1, (3,)))
SAMPLE = {"obs": np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)}


class Base(nn.Module):
    """(B, 4) -> (B, 3); subclasses do it in ways that cannot be exported."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.dropout = nn.Dropout(0.5)
        self.count = 0
        self.mean: torch.Tensor
        self.register_buffer("mean", torch.zeros(4))


class FixedByView(Base):
    def forward(self, obs: Any) -> Any:
        return self.layer(obs).view(2, -1)


class FixedByNumber(Base):
    def forward(self, obs: Any) -> Any:
        size = int(obs.shape[0])
        return self.layer(obs) + (0 if size == 2 else 1)


class Branches(Base):
    def forward(self, obs: Any) -> Any:
        return self.layer(obs) if obs[0, 0] > 100 else self.layer(obs) * 2


class TakesItem(Base):
    def forward(self, obs: Any) -> Any:
        return self.layer(obs) + 0 * float(obs[0, 0])


class SaysWhatIsWrong(Base):
    def forward(self, obs: Any) -> Any:
        raise SpecError("wide", expected="3 outputs", found=f"{obs.shape[1]}", fix="make it narrow")


class LeavesTorch(Base):
    def forward(self, obs: Any) -> Any:
        return self.layer(torch.from_numpy(obs.numpy() * 2))


class UpdatesItsMean(Base):
    def forward(self, obs: Any) -> Any:
        self.mean.add_(0.1 * obs.mean(dim=0))
        return self.layer(obs - self.mean)


class ReplacesItsMean(Base):
    def forward(self, obs: Any) -> Any:
        self.mean = self.mean * 0.9 + 0.1
        return self.layer(obs)


class Counts(Base):
    def forward(self, obs: Any) -> Any:
        self.count += 1
        return self.layer(obs) * self.count


class Samples(Base):
    def forward(self, obs: Any) -> Any:
        mean = self.layer(obs)
        return mean + torch.randn_like(mean)


class SometimesExplores(Base):
    def forward(self, obs: Any) -> Any:
        return torch.where(torch.rand(obs.shape[0], 1) < 1e-9, 1.0, self.layer(obs))


class DropsAlways(Base):
    def forward(self, obs: Any) -> Any:
        return torch.dropout(self.layer(obs), 0.5, True)  # noqa: FBT003 - torch's signature


class StaysInTraining(Base):
    def train(self, mode: bool = True) -> StaysInTraining:  # noqa: FBT002 - torch's signature
        del mode
        return super().train(True)  # noqa: FBT003

    def forward(self, obs: Any) -> Any:
        return self.layer(self.dropout(obs))


class MixesRows(Base):
    def forward(self, obs: Any) -> Any:
        return self.layer(obs - obs.mean(dim=0))


class WrongWidth(Base):
    def forward(self, obs: Any) -> Any:
        return self.layer(obs)[:, :2]


class WrongDtype(Base):
    def forward(self, obs: Any) -> Any:
        return self.layer(obs).double()


class Breaks(Base):
    def forward(self, obs: Any) -> Any:
        return obs["vector"]


class HoldsForeignTensor(Base):
    def __init__(self) -> None:
        super().__init__()
        self.offset = torch.zeros(3, device="meta")

    def forward(self, obs: Any) -> Any:
        return self.layer(obs)


REFUSED = [
    (FixedByView, r"inner \(FixedByView\) fails for a batch of 1", "any batch size"),
    (FixedByNumber, r"inner \(FixedByNumber\) fixes the batch size", "x.shape"),
    (Branches, r"inner \(Branches\) takes Python decisions", "torch.where"),
    (TakesItem, r"inner \(TakesItem\) takes Python decisions", "torch.where"),
    (LeavesTorch, r"torch.export cannot follow inner \(LeavesTorch\)", "rewrite"),
    (UpdatesItsMean, r"changes its own tensors", "inner.mean"),
    (ReplacesItsMean, r"changes its own tensors", "inner.mean"),
    (Counts, r"changes its own attributes when it acts", "inner.count"),
    (Samples, r"answers the same observations differently twice", "mode"),
    (SometimesExplores, r"draws random numbers", "aten.rand"),
    (DropsAlways, r"answers the same observations differently twice", "dropout"),
    (StaysInTraining, r"stay in training mode", "inner.dropout"),
    (MixesRows, r"depends on the other observations of its batch", "statistics"),
    (WrongWidth, r"do not fit its action space", r"[2, 2]"),
    (WrongDtype, r"do not fit its action space", "float64"),
    (Breaks, r"inner \(Breaks\) fails", "IndexError"),
    (HoldsForeignTensor, r"bound to a device", "inner.offset on meta"),
]


class Graph(nn.Module):
    """Gives the part under test a name inside."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, obs: Any) -> Any:
        return self.inner(obs)


def traced(module: nn.Module) -> ExportGraph:
    with captured():
        return export_graph(module, SIGNATURE, SAMPLE)


@pytest.mark.parametrize(("kind", "said", "detail"), REFUSED, ids=[kind.__name__ for kind, _, _ in REFUSED])
def test_what_cannot_be_exported_is_refused_by_name(kind: type[nn.Module], said: str, detail: str) -> None:
    with pytest.raises(UnsupportedModuleError, match=said) as caught:
        traced(Graph(kind()))
    assert detail in str(caught.value)
    assert caught.value.fix


class Distribution(Base):
    """torch.distributions check their arguments by a branch; that alone must not stop an export."""

    def forward(self, obs: Any) -> Any:
        return torch.distributions.Normal(self.layer(obs), 1.0).mean


class Sized(Base):
    def forward(self, obs: Any) -> Any:
        return self.layer(self.dropout(obs)) + torch.zeros(obs.shape[0], 3)


@pytest.mark.parametrize("kind", [Distribution, Sized])
def test_what_can_be_exported_is(kind: type[nn.Module]) -> None:
    checked = torch.distributions.Distribution._validate_args
    graph = traced(kind())
    assert torch.distributions.Distribution._validate_args == checked
    for batch in (1, 3, 8):
        found = graph.program.module()(torch.tensor(SAMPLE["obs"][:batch]))
        torch.testing.assert_close(found, graph.module(torch.tensor(SAMPLE["obs"][:batch])))


@pytest.mark.parametrize("make", EXAMPLES.values(), ids=EXAMPLES)
def test_the_original_is_left_as_it_is(make: Any) -> None:
    example = make()
    module = example.module.train()
    before = copy.deepcopy(module.state_dict())
    with captured():
        graph = example.traced()
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert not any(parameter.requires_grad for parameter in graph.module.parameters())
    assert not any(part.training for part in graph.module.modules())
    torch.testing.assert_close(module.state_dict(), before)


def test_the_program_holds_no_trace_of_its_author() -> None:
    with captured():
        program = normalised().traced().program
    assert program.example_inputs is None
    assert {name for node in program.graph.nodes for name in node.meta} <= {"val", "tensor_meta"}


def test_an_error_of_rlpipe_in_the_forward_is_shown_as_it_is() -> None:
    with pytest.raises(UnsupportedModuleError) as caught:
        export_graph(SaysWhatIsWrong(), SIGNATURE, SAMPLE)
    error = caught.value
    assert (error.subject, error.expected, error.found, error.fix) == ("wide", "3 outputs", "4", "make it narrow")
