from __future__ import annotations

import errno

import pytest

from rlpipe.config.findings import LOOK
from rlpipe.config.terminal import refused, tell
from rlpipe.errors import CheckpointNotFoundError, ConfigError, RlpipeError


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.EROFS, errno.ENAMETOOLONG, errno.EIO])
def test_what_the_system_refuses_is_an_error_of_ours(number: int) -> None:
    cause = OSError(number, "No", "runs/a")
    error = refused(cause)
    assert isinstance(error, RlpipeError)
    assert error.found == "No: runs/a"
    assert error.__cause__ is cause


def test_faults_of_the_code_and_errors_of_ours_stay_what_they_are() -> None:
    missing = CheckpointNotFoundError("there is nothing")
    for error in (FileNotFoundError(errno.ENOENT, "No such file", "x"), OSError("odd"), missing):
        assert refused(error) is error


def test_only_the_command_points_at_its_keys(capsys: pytest.CaptureFixture[str]) -> None:
    error = ConfigError("num_env_runners", expected="1 or more", found="-1")
    assert "--cfg" not in str(error)
    assert tell(error, tracebacks=False) == 2
    assert capsys.readouterr().err == f"error: {error}\n  keys: {LOOK}\n"


def test_errors_of_ours_are_told_without_a_traceback_and_others_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell(ConfigError("a.b", expected="x", found="y", fix="z"), tracebacks=False) == 2
    assert capsys.readouterr().err == "error: a.b\n  expected: x\n  found: y\n  fix: z\n"
    assert tell(ValueError("broken"), tracebacks=False) == 1
    assert "ValueError: broken" in capsys.readouterr().err
    assert tell(KeyboardInterrupt(), tracebacks=True) == 130
    assert capsys.readouterr().err == ""
