"""Every error that rlpipe raises on purpose.

    RlpipeError
    |- ConfigError (ValueError)                      the command or its config is wrong; exit code 2
    |- CheckpointError
    |  |- CheckpointNotFoundError (FileNotFoundError)
    |  |- CheckpointExistsError (FileExistsError)
    |  |- ManifestError (ValueError)                 a manifest that breaks the format
    |  |- IntegrityError (ValueError)                bytes that are not the ones the manifest names
    |  |- FormatVersionError (ValueError)            written by a newer rlpipe
    |- StateError
    |  |- UnsupportedStateError (TypeError)          a value that no checkpoint can hold
    |  |- StateMismatchError (ValueError)            .missing .unexpected .mismatched
    |  |- TieError (ValueError)                      part of a tied set
    |- SpecError (ValueError)                        a spec that cannot be built
    |- SpaceError (ValueError)                       spaces that do not fit
    |- SelectionError (LookupError)                  .pattern .closest
    |- IdError (ValueError)                          an id that cannot name a directory
    |- UntrustedClassError (ValueError)              .class_path .trusted
    |- UnsafePayloadError (ValueError)               bytes that ask for more than numbers
    |- ForeignFormatError (ValueError)               a foreign file that no importer can take
    |- NormalizerError (ValueError)                  statistics missing, unproven or not finite
    |- ObservationError (ValueError)                 an observation that the policy cannot take
    |- DeviceError (RuntimeError)                    a device that this machine lacks
    |- ExportError (RuntimeError)
    |  |- UnsupportedModuleError                     the module cannot be expressed by the target
    |  |- VerificationError                          .max_error .tolerance
    |  |- ArtifactError                              an artifact that is damaged or misused
    |- EnvironmentMismatchError (ValueError)         an environment that is not the policy's
    |- MissingDependencyError (ImportError)          .package .extra

A message has four parts: the subject, what was expected, what was found, and what to do. The parts are attributes too,
so that programs need not read text.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

_SHOWN = 10


class RlpipeError(Exception):
    """Base of every deliberate error.

    Attributes:
        subject: The thing that is wrong: a key, a component, a file.
        expected: What would have been right, or "".
        found: What was there instead, or "".
        fix: What the reader can do about it, or "".
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, subject: str, *, expected: str = "", found: str = "", fix: str = "") -> None:
        self.subject = subject
        self.expected = expected
        self.found = found
        self.fix = fix
        super().__init__(subject, expected, found, fix)

    def __str__(self) -> str:
        """The parts that are there, one a line."""
        parts = (("expected", self.expected), ("found", self.found), ("fix", self.fix))
        return "\n".join([self.subject, *(f"  {name}: {text}" for name, text in parts if text)])


def listed(findings: Iterable[str]) -> str:
    """Sorted findings as one text, capped with a count of the rest."""
    ordered = sorted(findings)
    rest = len(ordered) - _SHOWN
    return ", ".join(ordered[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def closest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """At most three known names that look like `name`, the nearest first."""
    return tuple(get_close_matches(name, sorted(known), n=3, cutoff=0.5))


class ConfigError(RlpipeError, ValueError):
    """The command line or its config is wrong; nothing was done."""

    exit_code: ClassVar[int] = 2


class CheckpointError(RlpipeError):
    """A checkpoint cannot be read or written."""


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
    """There is no checkpoint at the path."""


class CheckpointExistsError(CheckpointError, FileExistsError):
    """A checkpoint would be overwritten without leave."""


class ManifestError(CheckpointError, ValueError):
    """A manifest breaks the format."""


class IntegrityError(CheckpointError, ValueError):
    """Bytes on disk are not the ones that the manifest names."""


class FormatVersionError(CheckpointError, ValueError):
    """The checkpoint was written by a newer rlpipe.

    Attributes:
        version: The version found in the file.
        known: The newest version that this rlpipe reads.
    """

    def __init__(self, subject: str, *, version: int, known: int) -> None:
        self.version = version
        self.known = known
        super().__init__(
            subject,
            expected=f"format version {known} or older",
            found=f"format version {version}",
            fix="update rlpipe, or save the checkpoint again with this version",
        )


class StateError(RlpipeError):
    """A state is not what it has to be."""


class UnsupportedStateError(StateError, TypeError):
    """A value in a state that no checkpoint can hold, named by its path."""


class StateMismatchError(StateError, ValueError):
    """A state does not fit the object that should take it.

    Attributes:
        missing: Keys that the object has and the state lacks.
        unexpected: Keys that the state has and the object lacks.
        mismatched: Keys on both sides whose dtype, shape or type differ, with both sides described.
    """

    def __init__(
        self,
        subject: str,
        *,
        missing: Iterable[str] = (),
        unexpected: Iterable[str] = (),
        mismatched: Iterable[str] = (),
        fix: str = "select the keys that fit (select.keys), or rename them (rename)",
    ) -> None:
        self.missing = tuple(sorted(missing))
        self.unexpected = tuple(sorted(unexpected))
        self.mismatched = tuple(sorted(mismatched))
        kinds = (("missing", self.missing), ("unexpected", self.unexpected), ("mismatched", self.mismatched))
        found = "; ".join(f"{len(keys)} {name}: {listed(keys)}" for name, keys in kinds if keys)
        super().__init__(subject, expected="the same keys, dtypes and shapes on both sides", found=found, fix=fix)


class TieError(StateError, ValueError):
    """Arrays that are one in the live object would be torn apart."""


class SpecError(RlpipeError, ValueError):
    """A spec that cannot be built."""


class SpaceError(RlpipeError, ValueError):
    """Spaces that do not fit each other, or are none."""


class SelectionError(RlpipeError, LookupError):
    """A pattern that selects nothing.

    Attributes:
        pattern: The pattern as given.
        closest: Names that look like it, the nearest first.
    """

    def __init__(self, subject: str, *, pattern: str, known: Iterable[str] = ()) -> None:
        names = sorted(known)
        self.pattern = pattern
        self.closest = closest(pattern, names)
        near = f"did you mean {' or '.join(self.closest)}?" if self.closest else "choose one of the names that exist"
        super().__init__(subject, expected=f"one of {listed(names)}" if names else "", found=repr(pattern), fix=near)


class IdError(RlpipeError, ValueError):
    """An id that cannot name a component directory."""


class UntrustedClassError(RlpipeError, ValueError):
    """A class that a file names and nobody vouched for; it was not imported.

    Attributes:
        class_path: The dotted path in the file.
        trusted: The patterns that were trusted.
    """

    def __init__(self, class_path: str, *, trusted: Iterable[str], where: str) -> None:
        self.class_path = class_path
        self.trusted = tuple(trusted)
        super().__init__(
            f"{where} names the class {class_path}, which is not trusted and was not imported",
            expected=f"a class from {listed(self.trusted)}",
            found=class_path,
            fix=f"if you know the code, allow it: 'trust=[{class_path}]' (Python: trust=({class_path!r},))",
        )


class UnsafePayloadError(RlpipeError, ValueError):
    """Bytes that ask for more than numbers: code, links, or absurd sizes."""


class ForeignFormatError(RlpipeError, ValueError):
    """A foreign file that no importer can take."""


class NormalizerError(RlpipeError, ValueError):
    """Normalisation statistics that are missing, unproven or not finite."""


class ObservationError(RlpipeError, ValueError):
    """An observation that the policy cannot take."""


class DeviceError(RlpipeError, RuntimeError):
    """A device that this machine lacks."""


class ExportError(RlpipeError, RuntimeError):
    """An artifact could not be made."""


class UnsupportedModuleError(ExportError):
    """The module cannot be expressed by the target."""


class VerificationError(ExportError):
    """The artifact acts differently from the policy.

    Attributes:
        max_error: Largest absolute difference seen.
        tolerance: The tolerance it had to meet.
    """

    def __init__(self, subject: str, *, max_error: float, tolerance: float, fix: str = "") -> None:
        self.max_error = max_error
        self.tolerance = tolerance
        super().__init__(subject, expected=f"at most {tolerance:.1e}", found=f"{max_error:.3e}", fix=fix)


class ArtifactError(ExportError):
    """An artifact that is damaged, incomplete or misused."""


class EnvironmentMismatchError(RlpipeError, ValueError):
    """An environment whose spaces are not the policy's."""


class MissingDependencyError(RlpipeError, ImportError):
    """An optional package is not installed.

    Attributes:
        package: The distribution that is missing.
        extra: The extra of rlpipe that brings it.
    """

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed",
            fix=f"pip install 'rlpipe[{extra}]'",
        )
