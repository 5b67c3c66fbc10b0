"""Progress of what can take seconds: a bar on a terminal, nothing anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

Step: TypeAlias = Callable[[str], None]
"""Says that the next step begins, and what it is; the one before it is done."""


class Progress(Protocol):
    """Shows how far a task is."""

    def bar(self, total: int) -> AbstractContextManager[Step]:
        """A bar of that many steps, there while it is entered."""
        ...


class NoProgress:
    """Says nothing: pipes, files, tests and the Python interface."""

    @contextmanager
    def bar(self, total: int) -> Iterator[Step]:
        """No bar."""
        del total
        yield lambda _: None


class TerminalProgress:
    """A bar on the given console, removed when the work is done."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def bar(self, total: int) -> Iterator[Step]:
        """A bar with what is being done, how many steps are done, and the time."""
        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        # Exporters' own output is captured elsewhere, and stdout is the result's: the bar leaves both streams alone.
        with RichProgress(
            *columns, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False
        ) as bar:
            task = bar.add_task("starting", total=total)
            begun = 0

            def step(text: str) -> None:
                nonlocal begun
                bar.update(task, completed=begun, description=text)
                begun += 1

            yield step
            bar.update(task, completed=total)


def progress_for(console: Console) -> Progress:
    """A bar if the console is a terminal. The app gives one on stderr, so that stdout holds only the result."""
    return TerminalProgress(console) if console.is_terminal else NoProgress()
