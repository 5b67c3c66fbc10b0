"""Every error that rlpipe raises on purpose.

    RlpipeError
    |- ConfigError (ValueError)                      the command or its config is wrong; exit code 2
    |- CheckpointError
    |  |- CheckpointNotFoundError (FileNotFoundError)
    |  |- CheckpointExistsError (FileExistsError)
    |  |- ManifestError (ValueError)                 a manifest that breaks the format
    |  |- IntegrityError (ValueError)                bytes that are not the ones the manifest names
    |  |- FormatVersionError (ValueError)            written by a newer rlpipe
    |  |- StoreError                                 a store that does not answer, or refuses
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

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import ClassVar

_SHOWN = 10
_ALIKE = 0.6
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What steers a terminal, breaks lines, or turns the direction of writing."""


class RlpipeError(Exception):
    """Base of every deliberate error.

    Attributes:
        subject: The thing that is wrong: a key, a component, a file.
        expected: What would have been right, or "".
        found: What was there instead, or "".
        fix: What the reader can do about it; what usually helps against its kind, if the place knows nothing better.
    """

    exit_code: ClassVar[int] = 1
    usual_fix: ClassVar[str] = ""

    def __init__(self, subject: str, *, expected: str = "", found: str = "", fix: str = "") -> None:
        self.subject = subject
        self.expected = expected
        self.found = found
        self.fix = fix or self.usual_fix
        super().__init__(subject, expected, found, self.fix)

    def __str__(self) -> str:
        """The parts that are there, one a line."""
        parts = (("expected", self.expected), ("found", self.found), ("fix", self.fix))
        return printable("\n".join([self.subject, *(f"  {name}: {text}" for name, text in parts if text)]))


def printable(text: str) -> str:
    """The text with control characters escaped: it may quote a file that means to steer the terminal it is shown on."""
    return _UNSHOWN.sub(lambda found: ascii(found[0])[1:-1], text)


def listed(findings: Iterable[str]) -> str:
    """Sorted findings as one text, capped with a count of the rest."""
    ordered = sorted(findings)
    rest = len(ordered) - _SHOWN
    return ", ".join(ordered[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def closest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """At most three known names that look like `name`, the nearest first."""
    return tuple(get_close_matches(name, sorted(known), n=3, cutoff=0.5))


def _may_mean(given: str, name: str) -> bool:
    """Whether a name may be meant: what follows the last "/" is alike too, so that policies/p9 is not policies/p1."""
    above, _, last = given.rpartition("/")
    other, _, found = name.rpartition("/")
    return above != other or SequenceMatcher(None, last, found).ratio() >= _ALIKE


class ConfigError(RlpipeError, ValueError):
    """The command line or its config is wrong; nothing was done."""

    exit_code: ClassVar[int] = 2
    usual_fix: ClassVar[str] = "give what is expected"


class CheckpointError(RlpipeError):
    """A checkpoint cannot be read or written."""

    usual_fix: ClassVar[str] = "take another copy of the checkpoint, or another path"


class StoreError(CheckpointError):
    """A store does not answer, or refuses: what lies there may be whole all the same."""

    usual_fix: ClassVar[str] = "check the URL, the network, and the credentials that the store's library finds"


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
    """There is no checkpoint at the path."""

    usual_fix: ClassVar[str] = "check the path"


class CheckpointExistsError(CheckpointError, FileExistsError):
    """A checkpoint would be overwritten without leave."""

    usual_fix: ClassVar[str] = "choose another path"


class ManifestError(CheckpointError, ValueError):
    """A manifest breaks the format."""

    usual_fix: ClassVar[str] = "take another copy of the checkpoint; manifests are not made to be edited"


class IntegrityError(CheckpointError, ValueError):
    """Bytes on disk are not the ones that the manifest names."""

    usual_fix: ClassVar[str] = "take another copy of the checkpoint; task=verify lists all damage"


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

    usual_fix: ClassVar[str] = "take the state of an object with the same spec"


class UnsupportedStateError(StateError, TypeError):
    """A value in a state that no checkpoint can hold, named by its path."""

    usual_fix: ClassVar[str] = "turn it into numbers or plain values, or leave it out of the state"


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

    usual_fix: ClassVar[str] = "take all names of the tied array, or let go of the ties: select.ties=untie"


class SpecError(RlpipeError, ValueError):
    """A spec that cannot be built."""

    usual_fix: ClassVar[str] = "correct this part of the spec; task=info shows the spec of a checkpoint that works"


class SpaceError(RlpipeError, ValueError):
    """Spaces that do not fit each other, or are none."""

    usual_fix: ClassVar[str] = "correct the space, or take it from the environment"


class SelectionError(RlpipeError, LookupError):
    """A pattern that selects nothing.

    Attributes:
        pattern: The pattern as given.
        closest: Names that it may stand for by mistake, the nearest first.
    """

    def __init__(self, subject: str, *, pattern: str, known: Iterable[str] = ()) -> None:
        names = sorted(known)
        self.pattern = pattern
        self.closest = tuple(each for each in closest(pattern, names) if _may_mean(pattern, each))
        near = f"did you mean {' or '.join(self.closest)}?" if self.closest else "choose one of the names that exist"
        super().__init__(subject, expected=f"one of {listed(names)}" if names else "", found=repr(pattern), fix=near)


class IdError(RlpipeError, ValueError):
    """An id that cannot name a component directory."""

    usual_fix: ClassVar[str] = "choose another name"


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

    usual_fix: ClassVar[str] = "do not load this file; ask for one that was saved by the library itself"


class ForeignFormatError(RlpipeError, ValueError):
    """A foreign file that no importer can take."""

    usual_fix: ClassVar[str] = (
        "check that this is the file you mean, and that it is whole; else save it again with its trainer"
    )


class NormalizerError(RlpipeError, ValueError):
    """Normalisation statistics that are missing, unproven or not finite."""

    usual_fix: ClassVar[str] = "take the statistics that were saved with the policy"


class ObservationError(RlpipeError, ValueError):
    """An observation that the policy cannot take."""

    usual_fix: ClassVar[str] = "give observations of the policy's observation space; task=info shows it"


class DeviceError(RlpipeError, RuntimeError):
    """A device that this machine lacks."""

    usual_fix: ClassVar[str] = "choose a device that this machine has: restore.device=cpu"


class ExportError(RlpipeError, RuntimeError):
    """An artifact could not be made."""

    usual_fix: ClassVar[str] = "see what is expected, or leave this target out of export=[...]"


class UnsupportedModuleError(ExportError):
    """The module cannot be expressed by the target."""

    usual_fix: ClassVar[str] = "change that part of the module, or choose another target"


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

    usual_fix: ClassVar[str] = "export the policy again"


class EnvironmentMismatchError(RlpipeError, ValueError):
    """An environment whose spaces are not the policy's."""

    usual_fix: ClassVar[str] = "name the environment that the policy was trained in: env=..."


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
