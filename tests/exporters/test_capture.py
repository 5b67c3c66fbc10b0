from __future__ import annotations

import logging
import sys
import warnings

import pytest

from rlpipe.exporters.capture import captured


def test_everything_said_is_kept_and_nothing_shown(capfd: pytest.CaptureFixture[str]) -> None:
    torch_log = logging.getLogger("torch.onnx.some.part")
    handler = logging.StreamHandler(sys.stderr)
    torch_log.addHandler(handler)
    try:
        with captured() as said:
            sys.stdout.write("printed\n")
            sys.stderr.write("printed to stderr\n")
            warnings.warn("old", DeprecationWarning, stacklevel=1)
            torch_log.warning("no %s", "vision")
            torch_log.info("chatter")
    finally:
        torch_log.removeHandler(handler)
    assert sorted(said.lines) == ["DeprecationWarning: old", "WARNING: no vision", "printed", "printed to stderr"]
    assert capfd.readouterr() == ("", "")


def test_nothing_twice() -> None:
    with captured() as said:
        sys.stdout.write("same\nsame\n")
        sys.stdout.write("same\n")
    assert said.lines == ["same"]


def test_logs_of_others_pass(caplog: pytest.LogCaptureFixture) -> None:
    with captured() as said:
        logging.getLogger("rlpipe").warning("for the reader")
    assert said.lines == []
    assert caplog.messages == ["for the reader"]


def test_what_was_said_before_an_error_is_kept_and_filters_go() -> None:
    before = [list(handler.filters) for handler in logging.root.handlers]
    with pytest.raises(RuntimeError), captured() as said:  # noqa: PT012 - the block is what is tested
        sys.stdout.write("last words\n")
        raise RuntimeError
    assert said.lines == ["last words"]
    assert [list(handler.filters) for handler in logging.root.handlers] == before
