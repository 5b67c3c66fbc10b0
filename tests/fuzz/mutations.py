"""Small changes to bytes, and to the JSON of manifests, from a seeded generator."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from tests.checkpoint.texts import fields_of, sealed

EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 63, 64, 2**31, 2**53, 2**53 + 1, 1.5, -0.0, 1e300, "", "..", "/", "a/b", "%", "\0"),
    *("0" * 32, "0" * 64, "float32", "object", "inference", [], {}, [[]], [0], [-1], [2**40, 2**40], {"array": None}),
    *({"int": "0x1"}, {"float": "7ff8000000000123"}, {"bytes": "AA=="}, {"dict": {}}, {"tuple": []}, {"alias": "n"}),
)


def flip_bits(random: Random, data: bytearray) -> None:
    for _ in range(random.randint(1, 8)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def overwrite_number(random: Random, data: bytearray) -> None:
    """A field of 1, 2, 4 or 8 bytes gets a value at the edge of what it can hold, or near what it was."""
    width = random.choice((1, 2, 4, 8))
    start = random.randrange(max(1, len(data) - width))
    old = int.from_bytes(data[start : start + width], "little")
    new = random.choice((*EDGES, old + 1, old - 1, old * 2, old ^ 0xFF)) % 256**width
    data[start : start + width] = new.to_bytes(width, "little")


def cut(random: Random, data: bytearray) -> None:
    del data[random.randrange(len(data)) :]


def remove(random: Random, data: bytearray) -> None:
    start = random.randrange(len(data))
    del data[start : start + random.randint(1, 64)]


def repeat(random: Random, data: bytearray) -> None:
    start = random.randrange(len(data))
    piece = data[start : start + random.randint(1, 64)]
    data[start:start] = piece * random.choice((1, 2, 50))


def insert(random: Random, data: bytearray) -> None:
    start = random.randrange(len(data) + 1)
    data[start:start] = random.randbytes(random.randint(1, 16))


def move(random: Random, data: bytearray) -> None:
    start, target, width = random.randrange(len(data)), random.randrange(len(data)), random.randint(1, 64)
    data[target : target + width] = data[start : start + width]


MUTATORS: Sequence[Callable[[Random, bytearray], None]] = (
    *(flip_bits, flip_bits, overwrite_number, overwrite_number, cut, remove, repeat, insert, move),
)


def mutated(random: Random, data: bytes) -> bytes:
    """The bytes with one to three changes."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        if changed:
            random.choice(MUTATORS)(random, changed)
    return bytes(changed)


def mutated_zip(random: Random, data: bytes) -> bytes:
    """The zip with one member changed, under its right checksum."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        victim = random.choice(old.namelist())
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, mutated(random, content) if name == victim else content)
    return stream.getvalue()


def mutated_manifest(random: Random, text: str) -> str:
    """The manifest with one to three values changed, taken away or doubled, under its right hash."""
    fields = fields_of(text)
    for _ in range(random.randint(1, 3)):
        _change_one(random, fields)
    return sealed(fields)


def _change_one(random: Random, node: Any) -> None:
    while True:
        key = random.choice(sorted(node) if isinstance(node, dict) else range(len(node)))
        inner = node[key]
        if not isinstance(inner, (dict, list)) or not inner or random.random() < 0.2:
            break
        node = inner
    way = random.random()
    if way < 0.6:
        node[key] = deepcopy(random.choice(VALUES))
    elif way < 0.8:
        del node[key]
    elif isinstance(node, dict):
        node[random.choice((f"{key}x", "..", "a//b", "%41", ""))] = deepcopy(inner)
    else:
        node.append(deepcopy(inner))
