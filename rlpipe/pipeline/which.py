"""Which checkpoint of a folder a run reads: the latest, the best, or that of a step, by what they record."""

from __future__ import annotations

from rlpipe.checkpoint.choose import Choice, at_step, best, latest
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.checkpoint.place import Place
from rlpipe.errors import ConfigError
from rlpipe.pipeline.settings import BEST, SourceSettings


def chosen_of(folder: Place, source: SourceSettings) -> Choice:
    """The checkpoint of a folder that ``source.which`` names.

    Raises:
        ConfigError: The folder is a checkpoint itself.
        CheckpointNotFoundError: There is no whole one like that; the error says what was passed over.
    """
    if (folder / MANIFEST_NAME).is_file():
        raise ConfigError(
            f"source.which={source.which} chooses among the checkpoints of a folder",
            expected="source.path: a folder of checkpoints",
            found=f"{folder}, which is a checkpoint",
            fix=f"leave source.which out, or name the folder around it: source.path={folder.parent}",
        )
    if isinstance(source.which, int):
        return at_step(folder, source.which)
    return best(folder, goal=source.goal) if source.which == BEST else latest(folder)
