"""From a dotted path to a class, and back; a path that nobody vouched for is not even imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from traceback import extract_tb
from types import ModuleType
from typing import Any, TypeVar, cast

from rlpipe.errors import RlpipeError, SpecError, UntrustedClassError
from rlpipe.snapshot.moved import name_of_today

Base = TypeVar("Base")

ENTRY_POINTS = "rlpipe.classes"
"""Installed packages vouch for classes under this group; a value is a module or a class, `package.module:Class`."""

_OWN = "rlpipe.*"


def class_path_of(cls: type) -> str:
    """The dotted path of a class.

    Raises:
        SpecError: The class lies inside a function, so that no path leads to it.
    """
    path = f"{cls.__module__}.{cls.__qualname__}"
    if "<locals>" in path:
        raise SpecError(
            f"{path} cannot be found again by its name",
            expected="a class at the top of a module",
            found="a class inside a function",
            fix="move it to the top of a module that can be imported",
        )
    return path


def resolve_class(path: str, base: type[Base], *, trust: tuple[str, ...] = (), where: str = "the spec") -> type[Base]:
    """The class of a dotted path, imported if it is trusted.

    Trusted are rlpipe's own classes, what `trust` names, and what installed packages name as entry points.

    Args:
        path: Dotted path, perhaps one from before the class moved.
        base: What it must be a subclass of.
        trust: Dotted paths or globs that the caller vouches for, such as "my_package.*".
        where: What names the class, for errors.

    Raises:
        UntrustedClassError: Nobody vouched for the path; nothing was imported.
        SpecError: There is no such class, or it is no subclass of `base`.
    """
    path = name_of_today(path)
    patterns = (_OWN, *with_trust(trust, *_installed()))
    if not _is_trusted(path, patterns):
        raise UntrustedClassError(path, trusted=patterns, where=where)
    found = _import(path, where)
    if not isinstance(found, type):
        raise _no_class(path, where, found="something else of that name")
    # A module of rlpipe also holds what it imports; that is not vouched for with it.
    if fnmatchcase(path, _OWN) and not _is_trusted(class_path_of(found), patterns):
        raise UntrustedClassError(class_path_of(found), trusted=patterns, where=where)
    if not issubclass(found, base):
        raise SpecError(
            f"{where} names {path}, which does not fit there",
            expected=f"a subclass of {base.__module__}.{base.__qualname__}",
            found=f"a subclass of {', '.join(each.__qualname__ for each in found.__bases__)}",
        )
    return found


def resolve_callable(path: str, *, trust: tuple[str, ...] = (), where: str = "the spec") -> Callable[..., Any]:
    """The function, or other callable, of a dotted path, imported if it is trusted; see `resolve_class`.

    Raises:
        UntrustedClassError: Nobody vouched for the path; nothing was imported.
        SpecError: There is nothing there that can be called.
    """
    path = name_of_today(path)
    patterns = (_OWN, *with_trust(trust, *_installed()))
    if not _is_trusted(path, patterns):
        raise UntrustedClassError(path, trusted=patterns, where=where)
    found: Any = _import(path, where)
    if not callable(found):
        raise SpecError(f"{where} names {path}, which cannot be called", expected="a function", found=repr(found)[:80])
    home = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}"
    if fnmatchcase(path, _OWN) and not _is_trusted(home, patterns):
        raise UntrustedClassError(home, trusted=patterns, where=where)
    return cast("Callable[..., Any]", found)


def with_trust(trust: Iterable[str], *more: str) -> tuple[str, ...]:
    """Patterns that a caller vouches for, and more of them.

    Raises:
        SpecError: A text in place of patterns: read letter by letter, the "*" in it would be every class there is.
    """
    patterns = () if isinstance(trust, (str, bytes)) else tuple(trust)
    if isinstance(trust, (str, bytes)) or not all(isinstance(each, str) for each in patterns):
        raise SpecError(
            "trust is no list of patterns",
            expected='dotted paths or globs, such as ("my_package.*",)',
            found=repr(trust)[:80],
            fix=f"write trust=({trust!r},)" if isinstance(trust, str) else "write each as a text",
        )
    return (*patterns, *more)


def callable_path_of(function: Callable[..., Any]) -> str:
    """The dotted path of a function.

    Raises:
        SpecError: No path leads to it: it is a lambda, lies inside a function, or is no function.
    """
    path = f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', None)}"
    if "<" in path or path.endswith(".None") or path.startswith("None."):
        raise SpecError(
            f"{function!r} cannot be found again by its name",
            expected="a function at the top of a module",
            found=path,
            fix="define it with def at the top of a module that can be imported",
        )
    return path


def _is_trusted(path: str, patterns: tuple[str, ...]) -> bool:
    return any(path == pattern or fnmatchcase(path, pattern) for pattern in patterns)


def _import(path: str, where: str, *, whole: str = "") -> object:
    """The object at a path: the longest head that is a module, then names inside classes; `whole` is for errors."""
    head, _, name = path.rpartition(".")
    whole = whole or path
    if not head:
        raise _no_class(whole, where, found=f"no module {path}")
    try:
        module = import_module(head)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{head}.".startswith(f"{error.name}."):
            raise _no_class(whole, where, found=f"its module needs {error.name}, which is not installed") from error
        holder = _import(head, where, whole=whole)
    except ImportError as error:
        raise _no_class(whole, where, found=str(error)) from error
    except RlpipeError:
        raise
    except Exception as error:  # whatever somebody's module does when it is imported
        raise _fails(head, whole, where, error) from error
    else:
        return _member(module, name, whole, where)
    if not isinstance(holder, type) or name not in vars(holder):
        raise _no_class(whole, where, found=f"{head} without {name}")
    return vars(holder)[name]


def _member(module: ModuleType, name: str, whole: str, where: str) -> object:
    try:
        return getattr(module, name)
    except AttributeError:
        raise _no_class(whole, where, found=f"{module.__name__} without {name}") from None
    except ImportError as error:
        raise _no_class(whole, where, found=str(error)) from error


def _fails(module: str, path: str, where: str, error: Exception) -> SpecError:
    return SpecError(
        f"{where} names the class {path}, whose module {module} fails when it is imported",
        expected="a module that can be imported",
        found=f"{type(error).__name__} in {_place_of(error)}: {error}",
        fix="mend that line, and try it with: python -c 'import " + module + "'",
    )


def _place_of(error: Exception) -> str:
    """File and line of the module that failed, the innermost of those that were being imported."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    frames = [frame for frame in extract_tb(error.__traceback__) if frame.name == "<module>"]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "its loader"


def _no_class(path: str, where: str, *, found: str) -> SpecError:
    return SpecError(
        f"{where} names the class {path}, which is not there",
        expected="a class that can be imported",
        found=found,
        fix="install the package that defines it, or put it on the import path",
    )


@cache
def _installed() -> tuple[str, ...]:
    values = [each.value.replace(":", ".") for each in entry_points(group=ENTRY_POINTS)]
    return tuple(pattern for value in values for pattern in (value, f"{value}.*"))
