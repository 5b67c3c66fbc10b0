from __future__ import annotations

import io

from rich.console import Console

from rlpipe.pipeline.progress import NoProgress, TerminalProgress, progress_for


def test_a_pipe_gets_nothing() -> None:
    stream = io.StringIO()
    progress = progress_for(Console(file=stream))
    assert isinstance(progress, NoProgress)
    with progress.bar(2) as step:
        step("one")
        step("two")
    assert stream.getvalue() == ""


def test_a_terminal_sees_what_is_done_and_how_far_it_is() -> None:
    stream = io.StringIO()
    progress = progress_for(Console(file=stream, force_terminal=True, width=80))
    assert isinstance(progress, TerminalProgress)
    with progress.bar(2) as step:
        step("p0 [onnx]")
        step("p1 [onnx]")
    assert "p0 [onnx]" in stream.getvalue() or "p1 [onnx]" in stream.getvalue()
    assert "2/2" in stream.getvalue()
