from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from rlpipe.checkpoint import classes
from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.classes import class_path_of, resolve_callable, resolve_class, with_trust
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.errors import SpecError, UntrustedClassError
from rlpipe.snapshot import moved
from tests.checkpoint.components import Net

NET = "tests.checkpoint.components.Net"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that leaves a trace when it is imported."""
    (tmp_path / "foreign_package").mkdir()
    (tmp_path / "foreign_package" / "__init__.py").write_text("")
    (tmp_path / "foreign_package" / "nets.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(tmp_path / 'imported')!r}).write_text('x')\n"
        "class Outer(dict):\n    class Inner(dict):\n        pass\n"
        "def function(): pass\n"
    )
    (tmp_path / "foreign_package" / "broken.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield_names = ("foreign_package", "foreign_package.nets", "foreign_package.broken")
    for name in yield_names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "foreign_package"


def test_there_and_back() -> None:
    assert class_path_of(Net) == NET
    assert resolve_class(NET, Restorable, trust=(NET,)) is Net  # type: ignore[type-abstract]


def test_own_classes_are_trusted() -> None:
    path = "rlpipe.checkpoint.checkpointable.Checkpointable"
    assert resolve_class(path, Restorable) is Checkpointable  # type: ignore[type-abstract]


@pytest.mark.parametrize("trust", [(), ("foreign",), ("foreign_package.other.*",), ("*.Inner",)])
def test_an_untrusted_class_is_not_even_imported(package: str, tmp_path: Path, trust: tuple[str, ...]) -> None:
    with pytest.raises(UntrustedClassError, match="policies/p1 names the class") as caught:
        resolve_class(f"{package}.nets.Outer", dict, trust=trust, where="policies/p1")
    assert caught.value.class_path == "foreign_package.nets.Outer"
    assert "trust=" in caught.value.fix
    assert not (tmp_path / "imported").exists()
    assert package not in sys.modules


@pytest.mark.parametrize("trust", ["foreign_package.*", "foreign_package.nets.Outer", "*"])
def test_a_trusted_class_is_imported(package: str, trust: str) -> None:
    assert resolve_class(f"{package}.nets.Outer", dict, trust=(trust,)).__name__ == "Outer"


def test_a_class_inside_a_class(package: str) -> None:
    found = resolve_class(f"{package}.nets.Outer.Inner", dict, trust=("foreign_package.*",))
    assert class_path_of(found) == "foreign_package.nets.Outer.Inner"


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("foreign_package.nets.Nothing", "foreign_package.nets without Nothing"),
        ("foreign_package.nothing.Net", "without"),
        ("foreign_package.nets.function", "something else"),
        ("foreign_package.nets.Path.home", "without|something else"),
        ("foreign_package.broken.Net", "needs no_such_module_anywhere"),
        ("no_such_package_anywhere.Net", "no module"),
        ("nothing", "no module"),
        ("", "no module"),
    ],
)
def test_a_class_that_is_not_there(package: str, path: str, match: str) -> None:
    with pytest.raises(SpecError, match="which is not there") as caught:
        resolve_class(path, dict, trust=("*",))
    assert any(each in caught.value.found for each in match.split("|"))


def test_a_class_of_another_kind() -> None:
    with pytest.raises(SpecError, match="does not fit") as caught:
        resolve_class(NET, OrderedDict, trust=(NET,))
    assert "OrderedDict" in caught.value.expected


@pytest.mark.parametrize(
    "path",
    [
        "rlpipe.checkpoint.classes.EntryPoint",
        "rlpipe.checkpoint.directory.Path",
        "rlpipe.checkpoint.directory.os.system",
        "rlpipe.checkpoint.directory.shutil.Error",
    ],
)
def test_what_own_modules_import_is_not_trusted_with_them(path: str) -> None:
    with pytest.raises((UntrustedClassError, SpecError)):
        resolve_class(path, object)


def test_public_names_of_trusted_packages() -> None:
    found = resolve_class("collections.abc.Mapping", object, trust=("collections.abc.*",))
    assert found.__name__ == "Mapping"


def test_installed_packages_vouch_for_their_classes(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("nets", "foreign_package.nets:Outer", classes.ENTRY_POINTS)
    monkeypatch.setattr(classes, "entry_points", lambda group: [point] if group == classes.ENTRY_POINTS else [])
    classes._installed.cache_clear()
    try:
        assert resolve_class(f"{package}.nets.Outer", dict).__name__ == "Outer"
        with pytest.raises(UntrustedClassError):
            resolve_class(f"{package}.broken.Net", dict)
    finally:
        classes._installed.cache_clear()


def test_a_moved_class_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved, "MOVED", {"rlpipe.old.Checkpointable": class_path_of(Checkpointable)})
    assert resolve_class("rlpipe.old.Checkpointable", Restorable) is Checkpointable  # type: ignore[type-abstract]


def test_a_class_inside_a_function_has_no_path() -> None:
    class Local:
        pass

    with pytest.raises(SpecError, match="top of a module"):
        class_path_of(Local)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n\n1 / 0\n", "ZeroDivisionError in {file}, line 3: division by zero"),
        ("x = 1\ndef f(:\n", "SyntaxError in {file}, line 2"),
        ("\nNone.shape\n", "AttributeError in {file}, line 2"),
        ("import json\n\n\njson.loads('{{')\n", "JSONDecodeError in {file}, line 4"),
    ],
)
def test_a_module_that_fails_names_its_line(package: str, tmp_path: Path, text: str, found: str) -> None:
    file = tmp_path / "foreign_package" / "failing.py"
    file.write_text(text.replace("{{", "{"))
    with pytest.raises(SpecError, match=r"module foreign_package\.failing fails") as caught:
        resolve_class("foreign_package.failing.Net", dict, trust=("*",))
    assert found.format(file=file) in caught.value.found
    assert "foreign_package.failing" not in sys.modules


@pytest.mark.parametrize("trust", ["foreign_package.*", "*", b"foreign_package.*", (1,), ["foreign_package.*", None]])
def test_a_text_in_place_of_patterns_trusts_nothing(package: str, tmp_path: Path, trust: Any) -> None:
    ways: list[Callable[[], object]] = [
        lambda: resolve_class(f"{package}.nets.Outer", dict, trust=trust),
        lambda: resolve_callable(f"{package}.nets.function", trust=trust),
        lambda: with_trust(trust, "another"),
    ]
    for way in ways:
        with pytest.raises(SpecError, match="trust is no list") as caught:
            way()
        assert str(trust) in str(caught.value)
    assert not (tmp_path / "imported").exists()
