"""Paths as people type them, into values that Hydra's grammar reads as the same text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from rlpipe.errors import ConfigError

_PATH_KEYS = re.compile(
    r"(?P<key>\+{0,2}(?:[\w.]+\.path|source\.(?:normalizer|params)|checkpoints_dir|hydra\.(?:run|sweep)\.dir))=(?P<value>.*)",
    re.DOTALL,
)
_CHOICES = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])+""")
_INTERPOLATION = re.compile(r"\$\{[^{}]+\}")
_OPENING = re.compile(r"(\\*)\$\{")
_FUNCTION = re.compile(r"(?:choice|glob|range|interval|shuffle|sort|tag)\(.*\)", re.DOTALL)


def mend_path_override(override: str, *, sweep: bool) -> str:
    """Expand ``~`` and quote the value of an override whose key holds a path; any other override comes back as it is.

    Args:
        override: ``key=value`` as typed, after the shell took its own quotes off.
        sweep: Whether a comma separates the values of a sweep, unless a file of that whole name is there.
    """
    match = _PATH_KEYS.fullmatch(override)
    if match is None:
        return override
    return f"{match['key']}={_mended(match['value'], sweep=sweep)}"


def path_override(key: str, path: str) -> str:
    """``key=path``, the path taken as it is but for ``~``."""
    return f"{key}={_literal(path)}"


def _mended(value: str, *, sweep: bool) -> str:
    if _exists(value) and not (sweep and _all_exist(value)):
        return _literal(value)
    if sweep and _FUNCTION.fullmatch(value):
        return value
    if sweep and "," in value:
        return ",".join(_mended_choice(choice) for choice in _CHOICES.findall(value))
    return _mended_choice(value)


def _mended_choice(value: str) -> str:
    """One value: the user's own quotes, escapes, interpolations and ``null`` stay."""
    if value == "" or value.lower() == "null" or _is_quoted(value):
        return value
    if _exists(value):
        return _literal(value)
    is_interpolated = _INTERPOLATION.search(value) is not None
    if ("\\" in value or is_interpolated) and _parsed(value) is not None:
        return value
    return _quoted(value) if is_interpolated else _literal(value)


def _literal(path: str) -> str:
    """Text that Hydra reads as exactly this path, ``~`` expanded."""
    expanded = _expanded(path)
    if "${" not in expanded and _parsed(expanded) == expanded:
        return expanded
    escaped = _OPENING.sub(lambda match: match[1] * 2 + "\\${", expanded)
    text = _quoted(escaped)
    if _parsed(text) != escaped:
        raise ConfigError(
            "a path that cannot be given on the command line",
            expected="a path that Hydra can read",
            found=repr(path),
            fix="rename it, or call rlpipe from Python",
        )
    return text


def _quoted(text: str) -> str:
    quote = "'" if "'" not in text else '"'
    # Hydra keeps a backslash, unless a quote follows: then it escapes.
    body = re.sub(rf"(\\*)({quote}|\Z)", lambda match: match[1] * 2 + ("\\" + quote if match[2] else ""), text)
    return f"{quote}{body}{quote}"


def _is_quoted(value: str) -> bool:
    return len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""


def _expanded(path: str) -> str:
    if not path.startswith("~"):
        return path
    try:
        return str(Path(path).expanduser())
    except RuntimeError:  # no such user: a file may well be called ~x
        return path


def _exists(path: str) -> bool:
    try:
        return Path(_expanded(path)).exists()
    except (OSError, ValueError):
        return False


def _all_exist(value: str) -> bool:
    choices = value.split(",")
    return len(choices) > 1 and all(choice and _exists(choice) for choice in choices)


def _parsed(value: str) -> str | None:
    """The text that Hydra makes of a value; None if it makes a number, a list, a sweep or an error of it."""
    try:
        override = _parser().parse_override(f"key={value}")
    except HydraException:
        return None
    if override.is_sweep_override():
        return None
    parsed = override.value()
    return parsed if isinstance(parsed, str) else None


@cache
def _parser() -> OverridesParser:
    return OverridesParser.create()
