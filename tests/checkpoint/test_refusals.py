from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rlpipe.checkpoint.component import require_present
from rlpipe.checkpoint.refusals import reason
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointError, IntegrityError
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Spec


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EACCES, "Permission denied", "runs/a"), "Permission denied: runs/a"),
        (OSError(errno.EACCES, "Permission denied", "runs/.rlpipe-stage-1-2"), "Permission denied: runs"),
        (OSError(errno.EACCES, "Permission denied", "runs/.rlpipe-stage-1-2/x"), "Permission denied: runs"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EBADF, "Bad file descriptor", 7), "Bad file descriptor"),
        (FileNotFoundError("no regular file at x"), "no regular file at x"),
        (OSError(), "OSError"),
    ],
)
def test_the_system_is_quoted_without_numbers_and_without_names_of_the_way(error: OSError, said: str) -> None:
    assert reason(error) == said


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError) as caught:
        write_checkpoint(Snapshot(Spec("a.B"), {}, {}), tmp_path / "file" / "checkpoint")
    assert caught.value.found.endswith(str(tmp_path / "file"))
    assert "stage" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_component_that_may_not_be_looked_at_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "p0").mkdir(mode=0)
    with pytest.raises(IntegrityError) as caught:
        require_present(str(tmp_path / "p0"), "p0")
    assert "Permission denied" in caught.value.found
