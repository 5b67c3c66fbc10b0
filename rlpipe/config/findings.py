"""Collects what is wrong with a config, so that one error tells all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlpipe.errors import ConfigError, RlpipeError

LOOK = "see all keys and their values: rlpipe --cfg job"
"""The fix where nothing nearer is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        key: Dotted key, or the word of the command line.
        expected: What would have been right.
        found: What is there.
        fix: What to type instead.
    """

    key: str
    expected: str
    found: str
    fix: str

    def line(self) -> str:
        """The finding as one line."""
        return f"{self.key}: expected {self.expected}; found {self.found}; fix: {self.fix}"


@dataclass(slots=True)
class Findings:
    """The findings so far."""

    found: list[Finding] = field(default_factory=list)

    def add(self, key: str, *, expected: str, found: str, fix: str) -> None:
        """Note one more; the same one counts once."""
        finding = Finding(key=key, expected=expected, found=found, fix=fix)
        if finding not in self.found:
            self.found.append(finding)

    def add_error(self, error: RlpipeError, *, key: str, value: str = "") -> None:
        """Note what something below raised about a value.

        Args:
            error: What it raised.
            key: Dotted key of the value.
            value: The value in words, where the error does not repeat it.
        """
        found = ": ".join(part for part in (value, error.found) if part) or error.subject
        expected = error.expected or "another value"
        self.add(key, expected=expected, found=found, fix=error.fix or f"change {key}, or leave it out for its default")

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
