from __future__ import annotations

import io

import pytest
from rich.console import Console

from rlpipe.errors import RlpipeError, printable
from rlpipe.pipeline import tables
from rlpipe.pipeline.tables import show, size, table

LONG = "a-policy-with-a-name-that-is-longer-than-any-terminal-would-like-it-to-be-0123456789-and-more"


def on_terminal(width: int) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=True, color_system=None, highlight=False)
    console.print(table("policy", "file", "size", rows=[(LONG, "p0/onnx/policy.onnx", "1 kB")], right=("size",)))
    return stream.getvalue()


def test_a_long_id_is_folded_on_a_terminal_and_never_cut() -> None:
    text = on_terminal(80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert sum(text.count(char) for char in "0123456789") >= sum(char.isdigit() for char in LONG)


def test_a_pipe_gets_each_row_on_one_line_without_blanks_at_its_end() -> None:
    stream = io.StringIO()
    show(table("policy", "file", rows=[(LONG, LONG), ("p0", "")]), stream)
    lines = stream.getvalue().splitlines()
    assert lines[1].split() == [LONG, LONG]
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("text", ["[bold]p1[/bold]", "[p1]", "p1 :smile:", "\\[x]", "größe"])
def test_nothing_in_a_cell_is_markup(text: str) -> None:
    stream = io.StringIO()
    show(table("policy", rows=[(text,)]), stream)
    show(tables.line(text), stream)
    show(tables.facts([(text, text)]), stream)
    assert stream.getvalue().count(text) == 4


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (123_456, "123.5 kB"),
        (5 * 10**6, "5.0 MB"),
        (10**16, "10000.0 TB"),
    ],
)
def test_sizes(nbytes: int, text: str) -> None:
    assert size(nbytes) == text


def test_counts() -> None:
    assert tables.count(1, "array") == "1 array"
    assert tables.count(2000, "array") == "2,000 arrays"


@pytest.mark.parametrize(
    "text", ["\x1b[2Jgone", "a\x1b]0;title\x07b", "\x9b31m", "x\rok", "\u202eko", "\x00", "\u2028next"]
)
def test_nothing_that_is_shown_steers_the_terminal(text: str) -> None:
    stream = io.StringIO()
    for each in (table("policy", rows=[(text,)]), tables.line(text), tables.facts([(text, text)])):
        show(each, stream)
    assert stream.getvalue().replace("\n", "").isprintable()
    assert len(stream.getvalue().splitlines()) == 4
    assert str(RlpipeError(text, found=text)).replace("\n", "").isprintable()


def test_what_is_no_control_character_is_shown_as_it_is() -> None:
    assert printable("größe\t北京 👩‍🚀\n[x]") == "größe\t北京 👩‍🚀\n[x]"
