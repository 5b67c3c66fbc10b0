"""The opcodes of a pickle, run without importing or calling anything that it names."""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import IO, Any

from rlpipe.importers.restricted.charges import Account, size_of
from rlpipe.importers.restricted.values import Known, Name, Record, RefusedError, Token

_KEY_TYPES = (str, int, float, bool, bytes, type(None))
_MAX_KEY_BITS = 64
MARK = object()


class Machine:
    """One run over the opcodes of one pickle.

    Args:
        known: Names that mean something here; all others make records.
        persistent: Gives the value of a persistent id; without it, such ids are refused.
    """

    def __init__(self, known: Known, persistent: Callable[[Any], Any] | None = None) -> None:
        self.known = known
        self.persistent = persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.account = Account()

    def run(self, stream: IO[bytes]) -> Any:
        """The value that STOP leaves, tokens still unfinished; the stream is left right behind it."""
        start = stream.tell()
        for opcode, argument, position in pickletools.genops(stream):
            self.account.charge_opcode(opcode.name, (position or 0) - start)
            if opcode.name in _LITERALS:
                self.stack.append(argument)
            elif opcode.name in _HANDLERS:
                _HANDLERS[opcode.name](self, argument)
            elif opcode.name not in _IGNORED:
                raise RefusedError(f"the opcode {opcode.name}")
        if len(self.stack) != 1:
            raise RefusedError(f"{len(self.stack)} values at its end, where one belongs")
        return self.pop()

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Take the value from the top; a mark is none."""
        value = self.stack.pop()
        if value is MARK:
            raise RefusedError("a mark where a value belongs")
        return value

    def pop_to_mark(self) -> list[Any]:
        """Take everything above the last mark, and the mark."""
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is MARK:
                items = self.stack[index + 1 :]
                del self.stack[index:]
                return items
        raise RefusedError("no mark on the stack")

    def top(self) -> Any:
        """The value on the top, left there; a mark is none."""
        if self.stack[-1] is MARK:
            raise RefusedError("a mark where a value belongs")
        return self.stack[-1]

    def call(self, function: Any, args: Any) -> Any:
        """What a call of `function` stands for."""
        if not isinstance(args, tuple):
            raise RefusedError("a call without a tuple of arguments")
        if isinstance(function, Name):
            constructor = self.known.get((function.module, function.name))
            self.account.charge(size_of(function))
            return constructor(self.paid(args)) if constructor else Record(function.path, args)
        if isinstance(function, Record):
            self.account.charge(len(function.class_path))
            return Record(f"{function.class_path}(...)", args)
        raise RefusedError(f"a call of a {type(function).__name__}")

    def paid(self, parts: Any) -> Any:
        """The parts, after their sizes were charged: a file can hand one long value to a copying function again."""
        if isinstance(parts, tuple):
            self.account.charge(sum(map(size_of, parts)))
        return parts


def _name_of(argument: str) -> Name:
    module, _, name = argument.partition(" ")
    return Name(module, name)


def _stack_global(machine: Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    if type(name) is not str or type(module) is not str:
        raise RefusedError("a name that is no text")
    machine.push(Name(module, name))


def _reduce(machine: Machine, _: Any) -> None:
    args, function = machine.pop(), machine.pop()
    machine.push(machine.call(function, args))


def _new_with_keywords(machine: Machine, _: Any) -> None:
    keywords, args, function = machine.pop(), machine.pop(), machine.pop()
    made = machine.call(function, args)
    if type(keywords) is not dict or (keywords and not isinstance(made, Record)):
        raise RefusedError("keyword arguments for a known name")
    if keywords:
        made.entries.update(keywords)
    machine.push(made)


def _instance(machine: Machine, argument: str) -> None:
    machine.push(machine.call(_name_of(argument), tuple(machine.pop_to_mark())))


def _object(machine: Machine, _: Any) -> None:
    function, *args = machine.pop_to_mark()
    machine.push(machine.call(function, tuple(args)))


def _build(machine: Machine, _: Any) -> None:
    state, target = machine.pop(), machine.top()
    if isinstance(target, Token):
        target.build(machine.paid(state))
    elif isinstance(target, Record):
        target.state = state
    elif type(target) is not dict:  # attributes of an OrderedDict hold nothing that is wanted
        raise RefusedError(f"a state for a {type(target).__name__}")


def _append(machine: Machine, items: list[Any]) -> None:
    target = machine.top()
    if isinstance(target, Record):
        target.items.extend(items)
    elif type(target) is list:
        target.extend(items)
    else:
        raise RefusedError(f"items for a {type(target).__name__}")


def _set(machine: Machine, flat: list[Any]) -> None:
    target = machine.top()
    if isinstance(target, Record):
        target.entries.update(dict_of(flat))
    elif type(target) is dict:
        target.update(dict_of(flat))
    else:
        raise RefusedError(f"entries for a {type(target).__name__}")


def dict_of(flat: list[Any]) -> dict[Any, Any]:
    """The dict of names and values in turn; names are plain values."""
    for key in flat[::2]:
        # Hashing a nested tuple walks every path in it, and a file can make those endless.
        if type(key) not in _KEY_TYPES:
            raise RefusedError(f"a dict name of type {type(key).__name__}")
        if type(key) is int and key.bit_length() > _MAX_KEY_BITS:  # a long one is hashed anew each time
            raise RefusedError(f"a dict name of {key.bit_length()} bits")
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _set_one(machine: Machine, _: Any) -> None:
    value, key = machine.pop(), machine.pop()
    _set(machine, [key, value])


def _persistent(machine: Machine, argument: Any) -> None:
    if machine.persistent is None:
        raise RefusedError("a persistent id")
    machine.push(machine.persistent(argument))


def _tuple_of(size: int) -> Callable[[Machine, Any], None]:
    def handler(machine: Machine, _: Any) -> None:
        machine.push(tuple([machine.pop() for _ in range(size)][::-1]))

    return handler


def _constant(make: Callable[[], Any]) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.push(make())


def _collected(make: Callable[[list[Any]], Any]) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.push(make(machine.pop_to_mark()))


def _store(machine: Machine, index: int) -> None:
    machine.memo[index] = machine.top()


def _fetch(machine: Machine, index: int) -> None:
    machine.push(machine.memo[index])


def _drop(machine: Machine, _: Any) -> None:
    machine.stack.pop()


def _drop_to_mark(machine: Machine, _: Any) -> None:
    machine.pop_to_mark()


_IGNORED = frozenset({"PROTO", "FRAME", "STOP"})
_LITERALS = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    }
)
_HANDLERS: Mapping[str, Callable[[Machine, Any], None]] = MappingProxyType(
    {
        "NONE": _constant(lambda: None),
        "NEWTRUE": _constant(lambda: True),
        "NEWFALSE": _constant(lambda: False),
        "EMPTY_LIST": _constant(list),
        "EMPTY_TUPLE": _constant(tuple),
        "EMPTY_DICT": _constant(dict),
        "EMPTY_SET": _constant(lambda: Record("builtins.set")),
        "MARK": _constant(lambda: MARK),
        "LIST": _collected(list),
        "TUPLE": _collected(tuple),
        "DICT": _collected(dict_of),
        "FROZENSET": _collected(lambda items: Record("builtins.frozenset", items=items)),
        "TUPLE1": _tuple_of(1),
        "TUPLE2": _tuple_of(2),
        "TUPLE3": _tuple_of(3),
        "POP": _drop,
        "POP_MARK": _drop_to_mark,
        "DUP": lambda machine, _: machine.push(machine.top()),
        "APPEND": lambda machine, _: _append(machine, [machine.pop()]),
        "APPENDS": lambda machine, _: _append(machine, machine.pop_to_mark()),
        "ADDITEMS": lambda machine, _: _append(machine, machine.pop_to_mark()),
        "SETITEM": _set_one,
        "SETITEMS": lambda machine, _: _set(machine, machine.pop_to_mark()),
        **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _store),
        **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _fetch),
        "MEMOIZE": lambda machine, _: _store(machine, len(machine.memo)),
        "GLOBAL": lambda machine, argument: machine.push(_name_of(argument)),
        "STACK_GLOBAL": _stack_global,
        "REDUCE": _reduce,
        "NEWOBJ": _reduce,
        "NEWOBJ_EX": _new_with_keywords,
        "INST": _instance,
        "OBJ": _object,
        "BUILD": _build,
        "PERSID": _persistent,
        "BINPERSID": lambda machine, _: _persistent(machine, machine.pop()),
    }
)
"""Opcode -> what it does. One that is not here (EXT1, NEXT_BUFFER ...) is refused."""
