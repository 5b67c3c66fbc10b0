"""Tables and lines for people: aligned, ids and paths never cut, figures to the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from textwrap import fill
from typing import IO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from rlpipe.errors import printable

# Without a terminal there is no width to keep: a pipe or a file gets every row on one line.
UNBOUNDED = 10_000
TEXT_WIDTH = 60
_NAMED = 4


def table(*columns: str, rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> Table:
    """A table without lines; a cell that is too wide is folded, never cut.

    Args:
        columns: The headings.
        rows: One sequence of cells for each row, shown as text (nothing in them is read as markup).
        right: Headings of the columns that are aligned to the right.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 1), show_header=True, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold", no_wrap=False)
    for row in rows:
        made.add_row(*(Text(printable(str(cell))) for cell in row))
    return made


def left_in_file(skipped: Iterable[tuple[str, str]]) -> Sequence[RenderableType]:
    """What an importer left, with the reason for each; nothing if it left nothing."""
    rows = [(tidy(names), why) for names, why in skipped]
    return ("", table("left in the file", "why", rows=rows)) if rows else ()


def left_in_file_in_short(skipped: Sequence[tuple[str, str]]) -> Sequence[RenderableType]:
    """The same on one line, without the reasons and without the rest of long lists."""
    if not skipped:
        return ()
    named = [_first(names.split(", ")) for names, _ in skipped]
    rest = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return (line(f"left in the file: {'; '.join(named[:_NAMED])}{rest} (task=info says why)"),)


def _first(names: Sequence[str]) -> str:
    """``a, b, c, d`` -> ``a and 3 more``."""
    return ", ".join(names) if len(names) <= 2 else f"{names[0]} and {len(names) - 1} more"


def tidy(text: str) -> str:
    """A long list on lines of a readable width."""
    return fill(text, TEXT_WIDTH, break_long_words=False, break_on_hyphens=False)


def marked(renderable: RenderableType, mark: str) -> RenderableType:
    """The same, with the mark above it if it is a table with headings."""
    if isinstance(renderable, Table) and renderable.show_header:
        renderable.title, renderable.title_justify, renderable.title_style = mark, "left", "bold yellow"
    return renderable


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names and values in two columns, without headings."""
    made = Table(box=None, pad_edge=False, padding=(0, 1), show_header=False)
    made.add_column(overflow="fold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(Text(printable(name), style="dim"), Text(printable(str(value))))
    return made


def line(text: str, *, style: str = "") -> Text:
    """One line, taken as it is."""
    return Text(printable(text), style=style, overflow="fold")


def show(renderable: RenderableType, stream: IO[str]) -> None:
    """Write for people: in colours and at its width on a terminal, plain and unwrapped elsewhere."""
    if stream.isatty():
        Console(file=stream, highlight=False).print(renderable)
        return
    console = Console(file=StringIO(), width=UNBOUNDED, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(renderable)
    # Cells are padded to their column, which leaves blanks at the end of lines.
    stream.write("".join(f"{text.rstrip()}\n" for text in captured.get().splitlines()))


def size(nbytes: int) -> str:
    """``1234`` -> ``"1.2 kB"``."""
    if nbytes < 1000:
        return f"{nbytes} B"
    value = float(nbytes)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 1000 or unit == "TB":
            break
    return f"{value:.1f} {unit}"


def count(number: int, noun: str, *, plural: str = "") -> str:
    """``count(2, "array")`` -> ``"2 arrays"``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
