"""The type of the fixture that exports one policy with the workers that all tests share."""

from __future__ import annotations

from collections.abc import Callable

from rlpipe.exporters.report import ExportReport

Exporter = Callable[..., ExportReport]
