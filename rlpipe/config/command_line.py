"""The words after ``rlpipe``, mended into what Hydra reads: flags first, short forms spelt out, paths quoted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlpipe.config.findings import Findings
from rlpipe.config.quoting import mend_path_override, path_override
from rlpipe.errors import closest, listed

SWITCHES = frozenset(
    {"--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m", "-sc"}
    | {"--shell-completion"}
)
FLAGS_WITH_VALUE = frozenset(
    {"--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd"}
    | {"--experimental-rerun"}
)
INFO_FLAGS = frozenset({"--info", "-i"})
INFO_CHOICES = frozenset({"all", "config", "defaults", "defaults-tree", "plugins", "searchpath"})
_OVERRIDE = re.compile(r"(?:\+\+|\+|~)?(?P<root>[A-Za-z_$][\w$-]*)(?P<rest>[\w$./@:-]*)=", re.ASCII)
_DELETION = re.compile(r"~(?P<root>[A-Za-z_]\w*)[\w./@-]*", re.ASCII)
_POSITIONAL_KEYS = ("source.path", "base.path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that Hydra can read.

    Attributes:
        flags: Hydra's flags, each followed by its value if it has one.
        overrides: ``key=value`` words.
    """

    flags: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    @property
    def is_sweep(self) -> bool:
        """Whether several jobs are asked for."""
        return not {"-m", "--multirun"}.isdisjoint(self.flags)

    @property
    def only_shows(self) -> bool:
        """Whether Hydra is to print something and to run nothing."""
        shows = self.value_of("--cfg", "-c", "--info") is not None
        return shows or self.has("--help", "-h", "--hydra-help", "--shell-completion", "-sc")

    def has(self, *flags: str) -> bool:
        """Whether one of the flags was given."""
        return not set(flags).isdisjoint(self.flags)

    def value_of(self, *flags: str) -> str | None:
        """The value of a flag, by any of its names; the last one given counts."""
        found = None
        for index, word in enumerate(self.flags):
            name, sign, value = word.partition("=")
            if name in flags:
                found = value if sign else self.flags[index + 1] if index + 1 < len(self.flags) else None
        return found


def read_command(argv: Sequence[str], *, tasks: Iterable[str], roots: Iterable[str]) -> Command:
    """Mend the words of a command line.

    Args:
        argv: The words after the program's name.
        tasks: The names of the tasks.
        roots: The first parts of all config keys and groups.

    Raises:
        ConfigError: Words that are neither a flag, a task, a path nor an override.
    """
    flags, words = _split(argv)
    command = Command(flags=flags)
    overrides = _overrides(words, tasks=sorted(tasks), roots=frozenset(roots) | {"hydra"})
    mended = (mend_path_override(override, sweep=command.is_sweep) for override in overrides)
    return Command(flags=flags, overrides=tuple(mended))


def _split(argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Flags with their values, and all other words: Hydra's parser does not take flags between overrides."""
    flags: list[str] = []
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        if not word.startswith("-"):
            words.append(word)
        elif word in INFO_FLAGS:
            flags.append(f"--info={rest.pop(0) if rest and rest[0] in INFO_CHOICES else 'all'}")
        elif _takes_value(word):
            flags += [word, *rest[:1]]
            del rest[:1]
        else:
            flags.append(word)
    return tuple(flags), tuple(words)


def _takes_value(flag: str) -> bool:
    """Whether the next word belongs to the flag; argparse also takes the beginning of a long flag."""
    if flag in FLAGS_WITH_VALUE or flag in SWITCHES:
        return flag in FLAGS_WITH_VALUE
    return flag.startswith("--") and any(known.startswith(flag) for known in FLAGS_WITH_VALUE)


def _overrides(words: Sequence[str], *, tasks: Sequence[str], roots: frozenset[str]) -> list[str]:
    made: list[str] = []
    findings = Findings()
    paths = list(_POSITIONAL_KEYS)
    has_task = any(word.startswith("task=") for word in words)
    for word in words:
        if _is_override(word, roots):
            made.append(word)
        elif word in tasks and not has_task:
            made.append(f"task={word}")
            has_task = True
        elif not (has_task or _looks_like_path(word)):
            near = closest(word, tasks)
            fix = f"did you mean {' or '.join(near)}?" if near else "see rlpipe --help"
            findings.add(word, expected=f"a task ({listed(tasks)}), a path or KEY=VALUE", found="none of them", fix=fix)
        elif paths:
            made.append(path_override(paths.pop(0), word))
        else:
            fix = "put quotes around a path with spaces, and name further keys: KEY=VALUE"
            findings.add(word, expected="at most two paths: the source and the base", found="one more", fix=fix)
    findings.raise_if_any()
    return made


def _is_override(word: str, roots: frozenset[str]) -> bool:
    """Whether a word is KEY=VALUE: folders have names such as ``lr=1,seed=2`` and are paths unless KEY is a key."""
    match = _OVERRIDE.match(word) or _DELETION.fullmatch(word)
    if match is None:
        return False
    return match["root"] in roots or not _looks_like_path(word, bare_names=False)


def _looks_like_path(word: str, *, bare_names: bool = True) -> bool:
    if Path(os.path.expanduser(word)).exists():  # noqa: PTH111 - an unknown ~user is left as it is
        return True
    return bare_names and (os.sep in word or "." in word or word.startswith("~"))
