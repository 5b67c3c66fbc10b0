"""Workers that the tests share: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from rlpipe.exporters.export import export_policy as export_one
from rlpipe.exporters.worker_pool import WorkerPool


@pytest.fixture(scope="session")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool() as workers:
        yield workers


@pytest.fixture(scope="session", name="export_policy")
def _export_policy(pool: WorkerPool) -> Any:
    return partial(export_one, pool=pool)
