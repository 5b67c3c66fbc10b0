from __future__ import annotations

import xxhash

from rlpipe.backends.layout import LayoutBuilder, Slot, by_role


def test_bytes_and_arrays_come_one_after_the_other() -> None:
    builder = LayoutBuilder()
    assert builder.put(b"abc") == 0
    builder.align()
    assert builder.leave_room(Slot("a", "float32", (2, 3))) == 64
    assert builder.put(b"") == 88
    assert builder.put(b"def") == 88
    builder.align()
    assert builder.leave_room(Slot("b", "bool", ())) == 128
    layout = builder.done()
    assert layout.order == ("a", "b")
    assert layout.offsets == {"a": 64, "b": 128}
    assert layout.frame == (b"abc" + bytes(61), b"def" + bytes(37), b"")
    assert layout.size == 129
    assert layout.frame_digest == xxhash.xxh3_128_hexdigest(b"abc" + bytes(61) + b"def" + bytes(37))


def test_an_array_without_elements_needs_no_room() -> None:
    builder = LayoutBuilder()
    builder.put(b"x" * 64)
    assert builder.leave_room(Slot("a", "float64", (0, 3))) == 0
    assert (builder.done().order, builder.done().offsets, builder.done().size) == ((), {"a": 0}, 64)


def test_bytes_of_a_slot_follow_from_dtype_and_shape() -> None:
    assert [Slot("a", dtype, (3, 2)).nbytes for dtype in ("float8_e5m2", "bfloat16", "complex128")] == [6, 12, 96]


def test_inference_comes_before_training_and_each_is_sorted() -> None:
    slots = [Slot("b", "bool", ()), Slot("a", "bool", (), "training"), Slot("c", "bool", ()), Slot("a0", "bool", ())]
    assert [each.key for each in by_role(slots)] == ["a0", "b", "c", "a"]
