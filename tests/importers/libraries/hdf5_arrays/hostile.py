"""HDF5 files that mean harm, made with h5py, some of them with a few bytes changed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

SECRET = b"SECRET" * 100


@contextmanager
def new(path: Path, **options: Any) -> Iterator[Any]:
    with h5py.File(path, "w", **options) as file:
        file["good"] = np.arange(4.0)
        yield file


def patched(path: Path, old: bytes, replacement: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    assert len(old) == len(replacement)
    path.write_bytes(data.replace(old, replacement))


def external_storage(path: Path) -> None:
    secret = path.with_suffix(".bin")
    secret.write_bytes(SECRET)
    with new(path) as file:
        file.create_dataset("stolen", (len(SECRET),), "u1", external=[(str(secret), 0, len(SECRET))])


def other_file(path: Path) -> Path:
    other = path.with_suffix(".other")
    with h5py.File(other, "w") as file:
        file["group/stolen"] = np.arange(3.0)
    return other


def external_link(path: Path) -> None:
    with new(path) as file:
        file["stolen"] = h5py.ExternalLink(str(other_file(path)), "/group/stolen")


def external_link_as_a_group(path: Path) -> None:
    with new(path) as file:
        file["group"] = h5py.ExternalLink(str(other_file(path)), "/group")
        assert "stolen" in file["group"]


def external_link_behind_a_slash(path: Path) -> None:
    """A hard link called group/stolen: looked up as a path, its first part is a link into the other file."""
    with new(path) as file:
        file["group"] = h5py.ExternalLink(str(other_file(path)), "/group")
        file["group_stolen"] = np.zeros(3)
    patched(path, b"group_stolen", b"group/stolen")


def virtual_dataset(path: Path) -> None:
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource(str(other_file(path)), "group/stolen", (3,))
    with new(path, libver="latest") as file:
        file.create_virtual_dataset("stolen", layout)


def huge_in_chunks(path: Path) -> None:
    with new(path) as file:
        file.create_dataset("huge", (2**39,), "f8", chunks=(2**16,), fillvalue=1.0)


def huge_never_written(path: Path) -> None:
    with new(path) as file:
        file.create_dataset("huge", (2**39,), "f8")


def gzip_bomb(path: Path) -> None:
    with new(path) as file:
        file.create_dataset("bomb", (2**25,), "f4", chunks=(2**22,), compression="gzip")[:] = 0


def group_in_itself(path: Path) -> None:
    with new(path) as file:
        group = file.create_group("a")
        group["again"] = group


def root_in_a_group(path: Path) -> None:
    with new(path) as file:
        file.create_group("a")["root"] = file["/"]


def groups_that_multiply(path: Path) -> None:
    with new(path) as file:
        inner = file.create_group("last")
        for depth in range(30):
            outer = file.create_group(f"g{depth}")
            for name in "abcdefghij":
                outer[name] = inner
            inner = outer


def soft_links_in_a_loop(path: Path) -> None:
    with new(path) as file:
        file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")


def soft_link(path: Path) -> None:
    with new(path) as file:
        file["a"] = h5py.SoftLink("/good")


def too_deep(path: Path) -> None:
    with new(path) as file:
        file["/".join("x" * 200)] = np.arange(3)


def too_many(path: Path) -> None:
    with new(path, libver="latest") as file:
        for index in range(66_000):
            h5py.h5o.link(file["good"].id, file.id, f"n{index}".encode())


def text(path: Path) -> None:
    with new(path) as file:
        file["text"] = "words"


def structures(path: Path) -> None:
    with new(path) as file:
        file["pairs"] = np.zeros(3, [("a", "f4"), ("b", "i4")])


def references(path: Path) -> None:
    with new(path) as file:
        file.create_dataset("references", (1,), h5py.ref_dtype)[0] = file["good"].ref


def ragged(path: Path) -> None:
    with new(path) as file:
        file.create_dataset("ragged", (1,), h5py.vlen_dtype("f4"))[0] = np.arange(3)


def opaque(path: Path) -> None:
    with new(path) as file:
        file["raw"] = np.zeros(3, "V8")


def odd_float(path: Path) -> None:
    """Four bytes, and another bias than a float32 has: its raw bytes would be other numbers."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_ebias(100)
    with new(path) as file:
        dataset = h5py.h5d.create(file.id, b"odd", kind, h5py.h5s.create_simple((3,)))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ones(3, "f4"))


def odd_enumeration(path: Path) -> None:
    with new(path) as file:
        file.create_dataset("odd", (3,), h5py.enum_dtype({"RED": 0, "BLUE": 1}, "i1"))[:] = 1


def compact(path: Path) -> None:
    with new(path) as file:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(file.id, b"small", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((3,)), plan)


def no_shape(path: Path) -> None:
    with new(path) as file:
        file["nothing"] = h5py.Empty("f4")


def named_type(path: Path) -> None:
    with new(path) as file:
        file["kind"] = np.dtype("f4")


def name_with_a_zero(path: Path) -> None:
    with new(path) as file:
        file["aXb"] = np.zeros(3)
    patched(path, b"aXb", b"\xffXb")


def places(path: Path) -> tuple[int, int]:
    with new(path) as file:
        file["one"], file["two"] = np.arange(64.0), np.ones(64)
        return file["one"].id.get_offset(), file["two"].id.get_offset()


def over_each_other(path: Path) -> None:
    one, two = places(path)
    patched(path, two.to_bytes(8, "little"), (one + 8).to_bytes(8, "little"))


def behind_the_end(path: Path) -> None:
    _, two = places(path)
    patched(path, two.to_bytes(8, "little"), (2**40).to_bytes(8, "little"))


def in_front_of_the_end(path: Path) -> None:
    _, two = places(path)
    patched(path, two.to_bytes(8, "little"), (path.stat().st_size - 8).to_bytes(8, "little"))


def larger_than_its_storage(path: Path) -> None:
    with new(path) as file:
        file["two"] = np.zeros((123_457, 1), "u1")
    patched(path, (123_457).to_bytes(8, "little") + (1).to_bytes(8, "little"), (2**33).to_bytes(8, "little") * 2)


HOSTILE: Mapping[str, tuple[Callable[[Path], None], str]] = {
    made.__name__: (made, found)
    for made, found in [
        (external_storage, "stolen: numbers that lie in another file"),
        (external_link, "stolen: a link into another file"),
        (external_link_as_a_group, "group: a link into another file"),
        (external_link_behind_a_slash, "no plain name"),
        (virtual_dataset, "stolen: numbers in other datasets"),
        (huge_in_chunks, "huge: numbers in chunks"),
        (huge_never_written, "huge: 0 bytes stored for an array of 4398046511104"),
        (gzip_bomb, "bomb: numbers in chunks"),
        (group_in_itself, "a/again: a group that is reached twice"),
        (root_in_a_group, "reached twice"),
        (groups_that_multiply, "reached twice"),
        (soft_links_in_a_loop, "a: a soft link"),
        (soft_link, "a: a soft link"),
        (too_deep, "nested more than 32 deep"),
        (too_many, "more than 65536 objects"),
        (text, "text: a type that is not plain numbers"),
        (structures, "pairs: a type that is not plain numbers"),
        (references, "references: a type that is not plain numbers"),
        (ragged, "ragged: a type that is not plain numbers"),
        (opaque, "raw: a type that is not plain numbers"),
        (odd_float, "odd: a type that is not plain numbers"),
        (odd_enumeration, "odd: a type that is not plain numbers"),
        (compact, "small: numbers in its header"),
        (no_shape, "nothing: a dataset without a shape"),
        (named_type, "kind: an object that is neither a group nor a dataset"),
        (name_with_a_zero, "no plain name"),
        (over_each_other, "over each other"),
        (behind_the_end, "two: "),
        (in_front_of_the_end, "two: "),
        (larger_than_its_storage, ""),
    ]
}
"""Name -> what makes the file, and a part of what is found in it."""
