"""Checks the overrides of a command before Hydra composes anything, so that typos cost no run directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString, ValueType
from hydra.errors import HydraException

from rlpipe.config import conf
from rlpipe.config.findings import Findings
from rlpipe.config.keys import is_declared, unknown_key
from rlpipe.errors import closest, listed

MULTI_SELECT = frozenset({"export", "experiment"})
OPTIONAL = frozenset({"experiment"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The groups of options that a command may choose from.

    Attributes:
        directories: Folders of YAML files, the shipped one first.
        is_closed: Whether no further folder can offer options.
    """

    directories: tuple[Path, ...]
    is_closed: bool = True

    def names(self) -> tuple[str, ...]:
        """Names of the groups, sorted."""
        return conf.groups(self.directories)

    def options(self, group: str) -> tuple[str, ...]:
        """Names of the options of one group, sorted."""
        return conf.options(group, self.directories)


def for_hydra(overrides: Sequence[str], groups: Groups) -> tuple[str, ...]:
    """The overrides with the sign that Hydra needs, whatever was typed: here a plus makes no difference.

    Groups and the keys of the schema are always there; anything else (below a free key, or of a policy that is new),
    and what is in a mapping, may have to be added. Overrides are checked before, and configs after.
    """
    return tuple(_with_sign(text, groups.names()) for text in overrides)


def _with_sign(text: str, groups: Sequence[str]) -> str:
    bare = text.lstrip("+")
    key, _, value = bare.partition("=")
    if key in groups or (is_declared(key) and "{" not in value):
        return bare
    is_hydras = key.partition(".")[0] == "hydra"
    return text if is_hydras or not {"/", "@", "~"}.isdisjoint(key) else f"++{bare}"


def check_overrides(overrides: Sequence[str], groups: Groups, *, is_sweep: bool) -> tuple[Override, ...]:
    """Refuse words that Hydra cannot parse, options that do not exist and keys that the schema does not have.

    Raises:
        ConfigError: With all findings.
    """
    findings = Findings()
    parser = OverridesParser.create()
    parsed: list[Override] = []
    for text in overrides:
        try:
            parsed.append(parser.parse_override(text))
        except HydraException as error:
            found = str(error).strip().splitlines()[0]
            fix = "put quotes around a value with spaces or brackets: 'key=\"some value\"'"
            findings.add(text, expected="KEY=VALUE in Hydra's grammar", found=found, fix=fix)
            continue
        _check(parsed[-1], groups, findings)
        if not is_sweep:
            _check_one_value(parsed[-1], findings)
    _check_once(parsed, findings)
    findings.raise_if_any()
    return tuple(parsed)


def _check_once(overrides: Sequence[Override], findings: Findings) -> None:
    """Of a key that is set twice Hydra takes the last without a word."""
    given: dict[str, list[str]] = {}
    for override in overrides:
        if not (override.is_delete() or override.is_hydra_override()):
            key, _, value = str(override.input_line).lstrip("+").partition("=")
            given.setdefault(key, []).append(value)
    for key, values in given.items():
        different = tuple(dict.fromkeys(values))
        if len(different) > 1:
            fix = f"leave out all but one; to run once for each write -m '{key}={','.join(different)}'"
            findings.add(key, expected="one value", found=f"several: {' and '.join(different)}", fix=fix)


def _check_one_value(override: Override, findings: Findings) -> None:
    if override.is_sweep_override() and not override.is_hydra_override():
        key, _, value = str(override.input_line).partition("=")
        fix = f"for a list write '{key}=[{value}]', for a text '{key}=\"{value}\"', to run once for each add -m"
        findings.add(key, expected="one value", found=f"several: {value}", fix=fix)


def _check(override: Override, groups: Groups, findings: Findings) -> None:
    key = override.key_or_group
    if override.is_hydra_override() or "/" in key:
        return
    if key in groups.names():
        _check_choice(override, groups, findings)
        return
    unknown = unknown_key(key)
    if unknown is not None:
        findings.add(key, expected=unknown.expected, found="a key that does not exist", fix=unknown.fix)


def _check_choice(override: Override, groups: Groups, findings: Findings) -> None:
    group = override.key_or_group
    options = groups.options(group)
    if override.is_delete():
        fix = f"choose one: {group}=..."
        findings.add(f"~{group}", expected=f"one of {listed(options)}", found="a deletion", fix=fix)
        return
    for choice in values_of(override):
        if choice is None and group not in OPTIONAL:
            fix = f"choose one: {group}={options[0]}"
            findings.add(group, expected=f"one of {listed(options)}", found="null", fix=fix)
        elif isinstance(choice, list) and group not in MULTI_SELECT:
            fix = f"choose one: {group}={choice[0] if choice else options[0]}"
            findings.add(group, expected=f"one of {listed(options)}", found=f"the list {choice}", fix=fix)
        elif groups.is_closed:
            _check_names(group, choice if isinstance(choice, list) else [choice], options, findings)


def _check_names(group: str, names: Sequence[object], options: Sequence[str], findings: Findings) -> None:
    for name in names:
        if name is not None and name not in options:
            near = closest(str(name), options)
            fix = f"did you mean {group}={near[0]}?" if near else f"choose one: {group}={options[0]}"
            findings.add(group, expected=f"one of {listed(options)}", found=repr(name), fix=fix)


def values_of(override: Override) -> list[object]:
    """The values that are spelt out; a sweep made by a function is left to Hydra."""
    if not override.is_sweep_override():
        return [override.value()]
    is_spelt_out = override.is_choice_sweep() and override.value_type is not ValueType.GLOB_CHOICE_SWEEP
    choices = override.sweep_iterator() if is_spelt_out else ()
    return [choice.text if isinstance(choice, QuotedString) else choice for choice in choices]
