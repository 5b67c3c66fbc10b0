"""The whole command, mended and checked, before Hydra sees it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rlpipe.config import conf, keys
from rlpipe.config.command_line import Command, read_command
from rlpipe.config.new_policies import require_known_policies
from rlpipe.config.overrides import Groups, check_overrides, for_hydra
from rlpipe.errors import ConfigError

__all__ = ["Command", "read"]


def read(argv: Sequence[str]) -> Command:
    """The command, checked as far as it can be before anything is composed.

    Raises:
        ConfigError: Words that cannot be meant.
    """
    groups = _groups(argv)
    command = read_command(argv, tasks=groups.options("task"), roots={*keys.roots(), *groups.names()})
    if command.has("-sc", "--shell-completion", "--hydra-help", "--version"):
        return command
    if command.value_of("--experimental-rerun") is not None:
        fix = "type the command of that run again"
        raise ConfigError("--experimental-rerun", expected="a command", found="a pickle to run", fix=fix)
    if command.is_sweep and command.value_of("--cfg", "-c", "--info") is not None:
        raise ConfigError(
            "-m together with --cfg or --info",
            expected="one of them",
            found="both",
            fix="leave -m out and give one value for each key",
        )
    parsed = check_overrides(command.overrides, groups, is_sweep=command.is_sweep)
    require_known_policies(parsed, groups)
    return Command(flags=command.flags, overrides=for_hydra(command.overrides, groups))


def _groups(argv: Sequence[str]) -> Groups:
    """The shipped options and those of ``RLPIPE_CONF``; folders named in the command are Hydra's to search."""
    shipped, own = conf.shipped_directory(), conf.own_directory()
    for option in conf.shadowed(own, shipped) if own else ():
        print(f"warning: {option} of {own} is not read: rlpipe ships one of that name", file=sys.stderr)  # noqa: T201
    further = ("--config-dir", "-cd", "--config-path", "-cp", "hydra.searchpath", "+hydra.searchpath")
    is_closed = not any(word.partition("=")[0] in further for word in argv)
    return Groups(directories=(shipped, own) if own else (shipped,), is_closed=is_closed)
