"""Operations that change nothing never reach the program."""

from __future__ import annotations

import numpy as np
import pytest

from rlpipe.exporters.program.builder import Builder, UnsupportedError, Value
from rlpipe.exporters.program.program import sized


def kinds(builder: Builder, result: Value) -> list[str]:
    return [operation.kind for operation in builder.finished({"y": result}).operations]


@pytest.fixture
def b() -> Builder:
    return Builder()


@pytest.fixture
def x(b: Builder) -> Value:
    return b.input("x", "float32", (-1, 1, 6))


def test_moves_that_change_nothing(b: Builder, x: Value) -> None:
    moved = b.reshape(b.reshape(b.permute(x, [1, 0, 2]), (-1, 2, 3)), (-1, 1, 6))
    assert moved is x
    assert b.slice(x, 2, 0, 6) is x
    assert b.concat([x], 1) is x
    assert b.cast(x, "float32") is x
    assert b.broadcast(x, x.shape) is x


def test_reshapes_become_one(b: Builder, x: Value) -> None:
    assert kinds(b, b.reshape(b.permute(b.reshape(x, (-1, 6)), [0, 1]), (-1, 2, 3))) == ["reshape"]


def test_what_is_repeated_for_an_elementwise_operation_is_not(b: Builder, x: Value) -> None:
    zeros = b.broadcast(b.constant(0, "float32"), (-1, 1, 6))
    assert kinds(b, b.elementwise("add", x, zeros)) == ["add"]
    assert kinds(b, b.elementwise("add", zeros, zeros)) == ["broadcast", "add"]


def test_what_the_outputs_do_not_need_is_left_out(b: Builder, x: Value) -> None:
    b.elementwise("tanh", b.elementwise("add", x, b.constant(np.ones(6), "float32")))
    program = b.finished({"y": b.elementwise("exp", x)})
    assert [operation.kind for operation in program.operations] == ["exp"]
    assert program.constants == {}
    assert list(program.inputs) == ["x"]


def test_constants_have_all_axes_but_for_numbers(b: Builder, x: Value) -> None:
    program = b.finished({"y": b.elementwise("mul", b.elementwise("add", x, b.constant(np.ones(6), "float32")), x)})
    assert [array.shape for array in program.constants.values()] == [(1, 1, 6)]


def test_rows_of_a_batch_stay_apart(b: Builder, x: Value) -> None:
    one = b.constant(np.zeros((1, 1, 6)), "float32")
    with pytest.raises(UnsupportedError, match="taken apart"):
        b.slice(x, 0, 0, 1)
    with pytest.raises(UnsupportedError, match="behind each other"):
        b.concat([x, one], 0)
    with pytest.raises(UnsupportedError, match="two axes"):
        b.reshape(b.emit("matmul", [x, x], "float32", (-1, -1, 6)), (-1, -6))


def test_numbers_of_other_types_are_refused(b: Builder) -> None:
    with pytest.raises(UnsupportedError, match="float16"):
        b.input("z", "float16", ())


def test_sizes_grow_with_the_batch() -> None:
    assert sized((-1, 3, -2), 5) == (5, 3, 10)
