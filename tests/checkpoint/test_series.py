from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlpipe.checkpoint.async_save import AsyncSaver
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.checkpoint.series import Series
from rlpipe.errors import ConfigError
from tests.checkpoint.components import net

WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "saver of a path": (lambda folder: AsyncSaver(str(folder)), "series"),  # type: ignore[arg-type]
    "retention": (lambda folder: Series(folder=folder, retention=3), "retention"),  # type: ignore[arg-type]
    "folder": (lambda _: Series(folder=3), "folder"),  # type: ignore[arg-type]
    "write": (lambda folder: Series(folder=folder).write({"a": 1}, step=1), "snapshot"),  # type: ignore[arg-type]
    "save": (lambda folder: AsyncSaver(Series(folder=folder)).save("p0", step=1), "source"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WRONG)
def test_an_argument_of_another_type_is_named_with_what_was_expected(case: str, tmp_path: Path) -> None:
    call, name = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        call(tmp_path)
    assert caught.value.subject == name
    assert caught.value.expected
    assert caught.value.found
    assert caught.value.fix != ConfigError.usual_fix
    assert not list(tmp_path.iterdir())


def test_a_series_writes_live_objects_as_it_writes_snapshots(tmp_path: Path) -> None:
    series, live = Series(folder=tmp_path), net(1)
    one, two = series.write(live, step=1), series.write(snapshot_of(live), step=2)
    assert inspect_checkpoint(one).content_hash == inspect_checkpoint(two).content_hash
