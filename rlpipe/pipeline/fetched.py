"""What lies in a store: checkpoints are read there, single files are fetched first, anything else is refused."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.errors import ArtifactError, CheckpointNotFoundError, closest, listed
from rlpipe.exporters.record import RECORD_NAME


def is_checkpoint(url: Url) -> bool:
    """Whether a checkpoint, or a component directory of one, lies there.

    Raises:
        CheckpointNotFoundError: There is nothing, or a folder of something else.
        ArtifactError: A folder of artifacts.
    """
    if (url / MANIFEST_NAME).is_file():
        return True
    if url.is_file():
        return False
    if not url.exists():
        raise _nothing_there(url)
    inside = list(url.folders())
    if any((folder / RECORD_NAME).is_file() for folder in (url, *inside)):
        raise ArtifactError(
            f"{url} is a folder of artifacts",
            expected="artifacts on this machine, where their runtimes find the files",
            found="a folder in a store",
            fix="copy it here first",
        )
    whole = [str(folder) for folder in inside if (folder / MANIFEST_NAME).is_file()]
    raise CheckpointNotFoundError(
        f"{url} is no checkpoint",
        expected=f"a folder with {MANIFEST_NAME}",
        found=f"a folder with {listed(each.name for each in url.iterdir())}",
        fix=f"choose: source.which=latest, or name one of the checkpoints in it: {', '.join(whole[:3])}"
        if whole
        else "name a checkpoint",
    )


def fetched(url: Url) -> Path:
    """A copy of a file on this machine, under its own name; it goes when the process ends.

    Raises:
        CheckpointNotFoundError: There is no file.
        CheckpointError: The store cannot be reached.
    """
    folder = Path(tempfile.mkdtemp(prefix="rlpipe-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        url.download(str(folder / url.name))
    except FileNotFoundError:
        raise _nothing_there(url) from None
    return folder / url.name


def _nothing_there(url: Url) -> CheckpointNotFoundError:
    try:
        near = closest(url.name, [each.name for each in url.parent.iterdir()])
    except FileNotFoundError:
        near = ()
    return CheckpointNotFoundError(
        f"there is nothing at {url}",
        expected="a checkpoint or a model file",
        found="nothing",
        fix=f"did you mean {' or '.join(str(url.parent / name) for name in near)}?" if near else "check the URL",
    )
