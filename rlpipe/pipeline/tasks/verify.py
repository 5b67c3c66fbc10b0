"""task=verify: every byte of a checkpoint against its hashes, artifacts against their record, whether a file imports.

No torch for checkpoints; an artifact is run by its own runtime.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType

from rlpipe.checkpoint.authenticity import require_sha256, sha256_of
from rlpipe.checkpoint.component import lost_its_manifest
from rlpipe.checkpoint.identical import identical_note
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.checkpoint.verify import Finding, VerifyReport, verify_checkpoint
from rlpipe.errors import ArtifactError, CheckpointNotFoundError, ConfigError, RlpipeError, UnsafePayloadError
from rlpipe.exporters.artifact import Artifact, open_artifact
from rlpipe.exporters.companions.verify_main import damaged, proven_by_vectors
from rlpipe.exporters.target import acts
from rlpipe.pipeline import tables
from rlpipe.pipeline.acting import noise
from rlpipe.pipeline.artifacts import ArtifactFolder, folders_below
from rlpipe.pipeline.choose import chosen_ids
from rlpipe.pipeline.junit import Case, write_junit
from rlpipe.pipeline.locate import ARTIFACT, CHECKPOINT, Located, locate, reading_path
from rlpipe.pipeline.progress import Progress, Step
from rlpipe.pipeline.reports import Report, SourceFacts
from rlpipe.pipeline.settings import SHOW, RunSettings, SelectSettings
from rlpipe.pipeline.sources import CheckpointSource, foreign_source

USES = frozenset({"source", "checkpoint.path", "select.policy_ids", "trust", "verify"})
READS_ARTIFACTS = True
BATCHES = (1, 2, 7)
ANOTHER = "another"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked.

    Attributes:
        subject: A component, a file, a policy.
        verdict: "ok", "damaged", or "another": sound, and not the one that `verify.sha256` is of.
        detail: What was done, in words.
        findings: What is wrong, one by one; their components are named from the source.
        expected: The SHA-256 that was given, if this is another.
        found: The one that it has, if this is another.
    """

    subject: str
    verdict: str
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    expected: str = ""
    found: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict == "ok"

    @property
    def problem(self) -> str:
        """What is wrong in one text; "" if nothing is."""
        return "" if self.ok else "; ".join([self.verdict, *map(str, self.findings)])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "subject": self.subject,
            "ok": self.ok,
            "verdict": self.verdict,
            "detail": self.detail,
            "findings": [asdict(finding) for finding in self.findings],
            **({"expected": self.expected, "found": self.found} if self.verdict == ANOTHER else {}),
        }


@dataclass(frozen=True, kw_only=True)
class VerifyTaskReport(Report):
    """What was checked and what was found; ok if all is.

    Attributes:
        checks: One for each thing that was checked.
        identical: Policies of a checkpoint whose weights are the same.
        sha256: Of a checkpoint or a model file, if it was asked for.
    """

    task = "verify"
    checks: tuple[Check, ...]
    identical: tuple[tuple[str, ...], ...] = ()
    sha256: str | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, of all checks."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def ok(self) -> bool:
        """Whether every check is ok."""
        return all(check.ok for check in self.checks)

    def body(self) -> dict[str, Any]:
        """The checks."""
        return {
            "checks": [check.to_json() for check in self.checks],
            "identical": [list(group) for group in self.identical],
            "sha256": self.sha256,
        }

    def tables(self) -> Sequence[RenderableType]:
        """A row for each check, then a line for each thing that is wrong."""
        rows = [(check.subject, check.verdict, check.detail) for check in self.checks]
        findings = [tables.line(str(finding), style="red") for finding in self.findings]
        told = [] if self.sha256 is None else [tables.line(f"SHA-256: {self.sha256}")]
        return (tables.table("checked", "verdict", "how", rows=rows), *([""] if findings else []), *findings, *told)


def run(settings: RunSettings, *, progress: Progress) -> VerifyTaskReport:
    """Verify ``source.path``. Damage is reported, not raised.

    Raises:
        RlpipeError: There is nothing to verify.
    """
    located = _located(settings, reading_path(settings))
    started = time.perf_counter()
    report = _verified(located, settings, progress)
    if settings.verify.junit is not None:
        cases = [Case(check.subject, check.problem, check.detail) for check in report.checks]
        write_junit(Path(settings.verify.junit), located.facts.name, cases, seconds=time.perf_counter() - started)
    return report


def _located(settings: RunSettings, given: str | None) -> Located:
    """What is verified; a checkpoint that has lost its manifest is a damaged one, and no more."""
    try:
        return locate(settings, given=given)
    except CheckpointNotFoundError:
        place = None if given is None else place_of(given)
        if settings.source.which is not None or place is None or not place.is_dir() or not lost_its_manifest(place):
            raise
        return Located(kind=CHECKPOINT, path=place, facts=SourceFacts(kind=CHECKPOINT, name=str(given)))


def _verified(located: Located, settings: RunSettings, progress: Progress) -> VerifyTaskReport:
    if located.kind == CHECKPOINT:
        return _verify_checkpoint(located, settings)
    if located.kind == ARTIFACT:
        return _verify_artifacts(located, settings, progress)
    return _verify_foreign(located, settings)


def _verify_checkpoint(located: Located, settings: RunSettings) -> VerifyTaskReport:
    places, wanted = _places(located, settings), settings.verify.sha256
    if wanted is not None and len(places) > 1:
        raise _of_several(f"{len(places)} policies")
    found = [verify_checkpoint(place, sha256=None if wanted == SHOW else wanted) for place in places]
    identical = tuple(group for one in found for group in one.identical)
    return VerifyTaskReport(
        source=located.facts,
        notes=tuple(map(identical_note, identical)),
        warnings=(*located.notes, *(note for one in found for note in one.notes)),
        checks=tuple(_check_of(one, located.path, wanted) for one in found),
        identical=identical,
        sha256=sha256_of(places[0]) if wanted == SHOW and found[0].ok else None,
    )


def _of_several(found: str) -> ConfigError:
    return ConfigError(
        "verify.sha256 is one value",
        expected="one thing that it is of: a checkpoint, one policy of it, or a model file",
        found=found,
        fix="leave verify.sha256 out, or choose one policy: 'policy_ids=[p1]'",
    )


def _places(located: Located, settings: RunSettings) -> list[Place]:
    """What is read of a checkpoint: all of it, or the directories of the chosen policies."""
    if settings.select.policy_ids is None:
        return [located.path]
    source = CheckpointSource(path=located.path, facts=located.facts, policy_id=settings.source.policy_id)
    return [source.directory(policy_id) for policy_id in chosen_ids(settings.select.policy_ids, source.ids())]


def _check_of(found: VerifyReport, root: Place, wanted: str | None) -> Check:
    components, size = tables.count(found.components, "component"), tables.size(found.nbytes)
    if found.ok:
        return Check(subject=str(found.path), verdict="ok", detail=f"every byte of {components}, {size} of arrays")
    if found.sha256 and wanted is not None:
        return _another(str(found.path), "checkpoint", found.sha256, require_sha256(wanted))
    place = found.path.as_posix().removeprefix(root.as_posix()).strip("/")
    findings = tuple(
        replace(finding, component="/".join(filter(None, (place, finding.component)))) for finding in found.findings
    )
    detail = f"{tables.count(len(findings), 'finding')} in {components}"
    return Check(subject=str(found.path), verdict="damaged", detail=detail, findings=findings)


def _verify_artifacts(located: Located, settings: RunSettings, progress: Progress) -> VerifyTaskReport:
    if settings.verify.sha256 is not None:
        raise _of_several("a folder of artifacts, whose files have their own in artifact.json")
    folders = folders_below(located.local)
    chosen = chosen_ids(settings.select.policy_ids, {folder.policy_id for folder in folders})
    folders = tuple(folder for folder in folders if folder.policy_id in chosen)
    ids = [folder.policy_id for folder in folders]
    with progress.bar(sum(len(folder.targets) for folder in folders)) as step:
        checks = [
            check
            for folder in folders
            for check in _checks(folder, _subject(folder, located.local, ids), settings.trust, step)
        ]
    return VerifyTaskReport(source=located.facts, warnings=located.notes, checks=tuple(checks))


def _subject(folder: ArtifactFolder, root: Path, ids: Sequence[str]) -> str:
    """The policy's id, or the path in the tree where several folders are of one."""
    return folder.policy_id if ids.count(folder.policy_id) == 1 else folder.folder.relative_to(root).as_posix()


def _checks(folder: ArtifactFolder, subject: str, trust: tuple[str, ...], step: Step) -> Iterator[Check]:
    for path, text in damaged(folder.folder, folder.record.get("files", ())).items():
        finding = Finding(subject, path, "", text)
        yield Check(subject=f"{subject}/{path}", verdict="damaged", detail="1 finding", findings=(finding,))
    for target_id in folder.targets:
        step(f"{subject} {target_id}")
        try:
            yield Check(subject=f"{subject}/{target_id}", verdict="ok", detail=_act(folder, target_id, trust))
        except UnsafePayloadError as error:
            # The hash was checked before the file was to be loaded.
            yield Check(subject=f"{subject}/{target_id}", verdict="ok", detail=f"SHA-256; not run: {error.fix}")
        except RlpipeError as error:
            finding = Finding(subject, f"{target_id}/{folder.file(target_id).name}", "", _said(error, folder))
            yield Check(subject=f"{subject}/{target_id}", verdict="damaged", detail="1 finding", findings=(finding,))


def _said(error: RlpipeError, folder: ArtifactFolder) -> str:
    """What an error says, on one line and without the folder, which the line begins with."""
    return "; ".join(line.strip() for line in str(error).splitlines()).replace(f"{folder.folder}/", "")


def _act(folder: ArtifactFolder, target_id: str, trust: tuple[str, ...]) -> str:
    """Check the files of a target and let it act: on the golden vectors, and on a few samples of the space."""
    if not acts(target_id):
        found = damaged(folder.folder, folder.target(target_id)["files"])
        if found:
            raise ArtifactError("; ".join(f"{path} {text}" for path, text in found.items()))
        return "SHA-256; it holds weights and does not act"
    artifact = open_artifact(folder.folder, target=target_id, trust=trust)
    options = folder.target(target_id)["options"]
    status, detail = proven_by_vectors(folder.folder, folder.record, artifact.run, options)
    if status != "ok":
        raise ArtifactError(detail, fix="take another copy of the folder, or export again")
    if not artifact.gives_env_actions:
        return f"SHA-256, {detail}"
    _require_contained(artifact, folder.file(target_id))
    return f"SHA-256, {detail}, actions at batches {', '.join(map(str, BATCHES))}"


def _require_contained(artifact: Artifact, file: Path) -> None:
    for size in BATCHES:
        rng = np.random.default_rng(size)
        observations = artifact.observation_space.sample(size, rng)
        drawn = next((noise(spec, size, rng) for spec in artifact.signature.of_kind("noise")), None)
        actions = artifact.step(observations, noise=drawn).actions
        if not artifact.action_space.contains(actions):
            raise ArtifactError(
                f"{file} gives actions that are not in the action space",
                expected=artifact.action_space.describe(),
                found=" ".join(repr(actions).split())[:120],
                fix="export it again",
            )


def _verify_foreign(located: Located, settings: RunSettings) -> VerifyTaskReport:
    source = foreign_source(located, settings.source)
    chosen_ids(settings.select.policy_ids, source.ids())
    source.read(SelectSettings(policy_ids=settings.select.policy_ids))
    report = source.report
    detail = f"importable by {located.kind}: {len(report.imported)} taken, {len(report.skipped)} left"
    checks = [Check(subject=located.facts.name, verdict="ok", detail=detail)]
    wanted = settings.verify.sha256
    found = None if wanted is None else _sha256_of_file(located.local)
    if wanted not in (None, SHOW):
        checks.append(_check_of_sha256(located.facts.name, found, require_sha256(wanted)))
    return VerifyTaskReport(
        source=located.facts,
        warnings=source.notes,
        notes=report.confirmed,
        checks=tuple(checks),
        sha256=found if wanted == SHOW else None,
    )


def _sha256_of_file(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_of_sha256(name: str, found: str | None, expected: str) -> Check:
    if found == expected:
        return Check(subject=name, verdict="ok", detail="SHA-256 as given")
    return _another(name, "file", found or "", expected)


def _another(subject: str, kind: str, found: str, expected: str) -> Check:
    finding = Finding("", subject, "", f"this is another {kind}: SHA-256 {found}, expected {expected}")
    detail = "not the one that verify.sha256 is of"
    return Check(subject=subject, verdict=ANOTHER, detail=detail, findings=(finding,), expected=expected, found=found)
