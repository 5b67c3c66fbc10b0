"""Keep what exporters print, warn and log off the terminal, and keep it."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field

_LOGGERS = ("torch", "onnx", "onnxscript", "onnx_ir", "onnxruntime")


@dataclass
class Captured:
    """What was said, once each, in order."""

    lines: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Keep the lines of a text that are new."""
        self.lines.extend(line for line in map(str.rstrip, text.splitlines()) if line and line not in self.lines)


@contextmanager
def captured() -> Iterator[Captured]:
    """Collect stdout, stderr, warnings, and the log records of torch and onnx while the block runs."""
    said = Captured()
    stream = io.StringIO()
    log_filter = _Collector(said)
    handlers = _handlers()
    for handler in handlers:
        handler.addFilter(log_filter)
    try:
        with warnings.catch_warnings(record=True) as caught, redirect_stdout(stream), redirect_stderr(stream):
            warnings.simplefilter("always")
            yield said
    finally:
        for handler in handlers:
            handler.removeFilter(log_filter)
        for warning in caught:
            said.add(f"{warning.category.__name__}: {warning.message}")
        said.add(stream.getvalue())


class _Collector(logging.Filter):
    """A filter of handlers: takes the records of the named loggers away from them."""

    def __init__(self, said: Captured) -> None:
        super().__init__()
        self._said = said

    def filter(self, record: logging.LogRecord) -> bool:
        """False for the records that were collected."""
        mine = record.name.partition(".")[0] in _LOGGERS
        if mine and record.levelno >= logging.WARNING:
            self._said.add(f"{record.levelname}: {record.getMessage()}")
        return not mine


def _handlers() -> list[logging.Handler]:
    """Every handler that such a record could reach: torch hangs its own ones into its loggers."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LOGGERS]
    loggers = [logging.root, *map(logging.getLogger, names)]
    found = {id(handler): handler for logger in loggers for handler in logger.handlers}
    if logging.lastResort is not None:
        found[id(logging.lastResort)] = logging.lastResort
    return list(found.values())
