"""Where the YAML files are, and which options they offer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlpipe.errors import ConfigError

ENVIRONMENT_VARIABLE = "RLPIPE_CONF"
CONFIG_NAME = "config"


def shipped_directory() -> Path:
    """The absolute ``conf`` folder: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    candidates = (package / "conf", package.parent / "conf")
    for candidate in candidates:
        if (candidate / f"{CONFIG_NAME}.yaml").is_file():
            return candidate
    raise ConfigError(
        "rlpipe's own config files are missing",
        expected=f"{CONFIG_NAME}.yaml in {' or '.join(map(str, candidates))}",
        found="none",
        fix="install rlpipe again",
    )


def own_directory() -> Path | None:
    """The user's folder of further options, from the environment.

    Raises:
        ConfigError: The variable names no folder.
    """
    value = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if not value:
        return None
    if not Path(value).is_dir():
        raise ConfigError(
            f"the environment variable {ENVIRONMENT_VARIABLE}",
            expected="a folder with groups of your own options, such as module/mine.yaml",
            found=repr(value),
            fix=f"make the folder or unset {ENVIRONMENT_VARIABLE}",
        )
    return Path(value)


def groups(directories: Sequence[Path]) -> tuple[str, ...]:
    """Names of the groups that the folders hold, sorted."""
    found = {path.name for directory in directories for path in directory.iterdir() if path.is_dir()}
    return tuple(sorted(name for name in found if not name.startswith((".", "_"))))


def options(group: str, directories: Sequence[Path]) -> tuple[str, ...]:
    """Names of the options of a group over all folders, sorted."""
    return tuple(sorted({name for directory in directories for name in _option_names(directory / group)}))


def shadowed(own: Path, shipped: Path) -> tuple[str, ...]:
    """Options of the user's folder that are never read, because rlpipe ships one of the same name."""
    names = groups([own])
    both = ((name, option) for name in names for option in _option_names(own / name))
    return tuple(sorted(f"{name}/{option}" for name, option in both if (shipped / name / f"{option}.yaml").is_file()))


def _option_names(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*.yaml"):
        yield path.relative_to(folder).with_suffix("").as_posix()
