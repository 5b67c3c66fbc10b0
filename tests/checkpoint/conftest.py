from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_opened: list[list[Path]] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _opened and isinstance(arguments[0], (str, bytes)):
        _opened[-1].append(Path(arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]))


sys.addaudithook(_note)


class OpenedFiles:
    """Counts which files the interpreter opens, by its own audit events."""

    @contextmanager
    def below(self, directory: Path) -> Iterator[list[str]]:
        """The files opened below a directory while the block runs, relative to it."""
        _opened.append([])
        names: list[str] = []
        try:
            yield names
        finally:
            found = _opened.pop()
            names.extend(sorted(str(each.relative_to(directory)) for each in found if each.is_relative_to(directory)))


@pytest.fixture
def opened_files() -> OpenedFiles:
    return OpenedFiles()
