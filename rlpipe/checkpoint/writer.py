"""From a snapshot to a checkpoint directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar, get_args

from rlpipe.backends.array_file import Durability, digests_of, raw_of, write_arrays, write_file
from rlpipe.backends.backend import resolve
from rlpipe.backends.remote import Url
from rlpipe.checkpoint.attachments import copy_in, files_of
from rlpipe.checkpoint.component import refuse_part_of_another
from rlpipe.checkpoint.directory import IfExists, locate, real_path, staged, sync_directory
from rlpipe.checkpoint.foreign import refuse_to_lose
from rlpipe.checkpoint.format import MANIFEST_NAME, MAX_MANIFEST_SIZE
from rlpipe.checkpoint.linking import Former
from rlpipe.checkpoint.manifest import Manifest, Origin, excess_of, identity_of, seal
from rlpipe.checkpoint.place import place_of
from rlpipe.checkpoint.plan import Plan, plans_of
from rlpipe.checkpoint.strict_json import Json, plain_text
from rlpipe.checkpoint.table import Table
from rlpipe.checkpoint.upload import uploaded
from rlpipe.errors import ConfigError, UnsupportedStateError
from rlpipe.snapshot.snapshot import Snapshot, below

Where = TypeVar("Where", bound=str | os.PathLike[str])


class _Written(NamedTuple):
    """What a parent remembers of a child."""

    manifest_hash: str
    content_hash: str
    inference_hash: str


def write_checkpoint(
    snapshot: Snapshot,
    path: Where,
    *,
    backend: str = "hdf5",
    if_exists: IfExists = "error",
    durability: Durability = "fsync",
    previous: str | os.PathLike[str] | None = None,
    provenance: Mapping[str, Json] | None = None,
    attachments: Mapping[str, str | os.PathLike[str]] | None = None,
) -> Where:
    """Write a snapshot as a checkpoint directory, whole or not at all.

    Arrays are written from where they lie. What could not be read back is refused before anything is written.

    Args:
        snapshot: What is written, with everything in it. Equal snapshots give equal bytes, but for the root's origin.
        path: The directory to make; its parents are made too. Or a new URL in a store (see `uploaded`).
        backend: "hdf5" or "pickle".
        if_exists: "replace" lets it take the place of an older checkpoint, in one step.
        durability: "fsync": it is on the disk when this returns. "none": the system writes it when it likes; safe
            against killed processes, not against power failures.
        previous: A checkpoint in the same file system, by default the one that is replaced. Files of components that
            have not changed since are linked, not copied, after a look at every byte of them.
        provenance: Plain JSON about this run, kept in the root's manifest only.
        attachments: Component path, such as "policies/p1" -> a folder whose files are copied to `model/` in that
            component's directory, in the same step, and listed with their hashes. Of a folder with onnx/policy.onnx in
            it the file becomes policies/p1/model/onnx/policy.onnx. Empty folders are left out. A snapshot has no
            attachments, so that what is read and written again (a subset, a merge, another backend) lacks them unless
            they are given here: they are exports of the policy as it was.

    Returns:
        The path, as given.

    Raises:
        ConfigError: `if_exists` or `durability` is another word.
        CheckpointExistsError: There is something at the path, or in what is replaced, or the path is a component of a
            checkpoint around it.
        CheckpointError: The system cannot write there.
        UnsupportedStateError: A state that no checkpoint, or not this backend, can hold; attachments that are no folder
            of files.
        ManifestError: A spec, metadata or provenance that is not plain JSON.
        IdError: A component's name cannot name a directory, or the name of an attachment no file.
        SelectionError: Attachments for a component that is not in the snapshot.
    """
    _require_word("if_exists", if_exists, get_args(IfExists))
    _require_word("durability", durability, get_args(Durability))
    origin = Origin(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), dict(provenance or {}))
    plain_text(origin.provenance, "provenance")
    plans = plans_of(snapshot, resolve(backend))
    attached = files_of(snapshot, attachments or {})
    place = place_of(path)
    if isinstance(place, Url):
        with uploaded(place, if_exists=if_exists) as stage:
            _write(plans, attached, "", str(stage), None, "none", origin)
        return path
    target = real_path(place)
    refuse_part_of_another(target)
    if if_exists == "replace":
        refuse_to_lose(locate(target))
        previous = previous or locate(target)
    with staged(target, if_exists=if_exists, durability=durability) as stage:
        former = None if previous is None else Former(os.fspath(previous), durability)
        _write(plans, attached, "", str(stage), former, durability, origin)
    return path


def _require_word(name: str, value: object, words: tuple[str, ...]) -> None:
    if value not in words:
        raise ConfigError(
            name, expected=" or ".join(words), found=repr(value)[:80], fix=f"write {name}={words[0]!r}, or leave it out"
        )


def _write(
    plans: Mapping[str, Plan],
    attached: Mapping[str, Mapping[str, Path]],
    path: str,
    directory: str,
    former: Former | None,
    durability: Durability,
    origin: Origin | None,
) -> _Written:
    """Fill a component's directory, its children first; it is on the disk when this returns."""
    plan = plans[path]
    children: dict[str, _Written] = {}
    for name in sorted(plan.part.children):
        place = f"{directory}/{name}"
        os.mkdir(place)  # noqa: PTH102  pathlib costs as much as the call itself
        inner = former and former.child(name)
        children[name] = _write(plans, attached, below(path, name), place, inner, durability, None)
    digests = _write_arrays(plan, directory, former, durability)
    inside = {name: (child.content_hash, child.inference_hash) for name, child in children.items()}
    spec = plan.part.spec
    hashes = identity_of(spec, plan.plain, plan.table, digests, inside)
    manifests = {name: child.manifest_hash for name, child in children.items()}
    files = copy_in(directory, attached[path], durability) if path in attached else {}
    manifest = Manifest(
        spec, plan.plain, plan.table, digests, manifests, plan.ties, plan.part.metadata, *hashes, origin, files
    )
    digest = _write_manifest(manifest, directory, path, former, durability)
    sync_directory(directory, durability=durability)
    return _Written(digest, *hashes)


def _write_arrays(plan: Plan, directory: str, former: Former | None, durability: Durability) -> dict[str, str]:
    """Write the array file, or link the one there is; returns array key -> digest."""
    table = plan.table
    if plan.layout is None or table.file is None:
        return {}
    raws = {key: raw_of(array) for key, array in plan.arrays.items() if key not in table.tied}
    if former and former.has_table(table):
        digests = _of_all(table, digests_of(raws))
        if former.link_arrays(directory, table, digests):
            return digests
    return _of_all(table, write_arrays(f"{directory}/{table.file.name}", plan.layout, raws, durability=durability))


def _of_all(table: Table, digests: dict[str, str]) -> dict[str, str]:
    """The digests of all arrays of a table, out of those without the tied ones, in its order."""
    return {key: digests[table.tied.get(key, key)] for key in table.extents} if table.tied else digests


def _write_manifest(
    manifest: Manifest, directory: str, path: str, former: Former | None, durability: Durability
) -> str:
    """Write the manifest, or link the one there is; returns its hash."""
    text, digest = seal(manifest.text())
    found = f"{len(text)} bytes" if len(text) > MAX_MANIFEST_SIZE else excess_of(text)
    if found:
        raise UnsupportedStateError(
            f"what is no array in {path or 'the root'} is too much",
            expected=f"at most {MAX_MANIFEST_SIZE} bytes of plain values and metadata",
            found=found,
            fix="keep large bytes values as uint8 arrays, and long lists of numbers as arrays too",
        )
    if not (former and former.link_manifest(directory, text)):
        write_file(f"{directory}/{MANIFEST_NAME}", text.encode(), durability=durability)
    return digest
