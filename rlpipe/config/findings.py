"""Collects what is wrong with a config, so that one error tells all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlpipe.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        key: Dotted key, or the word of the command line.
        expected: What would have been right.
        found: What is there.
        fix: What to type instead, or "".
    """

    key: str
    expected: str
    found: str
    fix: str = ""

    def line(self) -> str:
        """The finding as one line."""
        return f"{self.key}: expected {self.expected}; found {self.found}" + (f"; {self.fix}" if self.fix else "")


@dataclass(slots=True)
class Findings:
    """The findings so far."""

    found: list[Finding] = field(default_factory=list)

    def add(self, key: str, *, expected: str, found: str, fix: str = "") -> None:
        """Note one more; the same one counts once."""
        finding = Finding(key=key, expected=expected, found=found, fix=fix)
        if finding not in self.found:
            self.found.append(finding)

    def raise_if_any(self) -> None:
        """Raise all findings as one error.

        Raises:
            ConfigError: There is at least one.
        """
        if len(self.found) == 1:
            only = self.found[0]
            raise ConfigError(only.key, expected=only.expected, found=only.found, fix=only.fix)
        if self.found:
            lines = [f"  - {finding.line()}" for finding in self.found]
            raise ConfigError("\n".join([f"{len(lines)} things in the command or its config are wrong:", *lines]))
