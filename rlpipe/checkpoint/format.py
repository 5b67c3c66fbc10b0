"""The format on disk: its name and version, the names of its files, and what version 1 says.

A directory with a `manifest.json` is a component: a whole checkpoint, alone or inside another one. The manifest is JSON
in ASCII with a field a line, in this order:

    format, version   the two constants below
    spec              {"class": dotted path, "config": what it computes, "options": how it was built}
    metadata          plain JSON for people and reports
    origin            of a root {"created": time in UTC, "provenance": plain JSON}; of any other component null
    children          {name of a directory in this one: SHA-256 of the manifest there}
    ties              arrays of different components that are one: [[[component below this one, array key], ...], ...]
    attachments       {path below this directory: [bytes, xxh3-128]}, files that travel with the component
    entries           {key: ["inference" or "training", typed JSON]}, the state but for its arrays
    file              the array file: backend, name, size, xxh3-128 of all bytes in no array (frame), and for each array
                      [key, dtype, shape, role, offset], sorted by key; null without arrays
    xxh3              xxh3-128 of the bytes of each array, in the same order
    content_hash      SHA-256 over what the component is and has learnt (see `rlpipe.snapshot.identity`)
    inference_hash    the same over what acts
    manifest_hash     SHA-256 over the text before this field, without the comma and the line's end that part the two

Objects and lists of metadata, provenance, config and options are at most 64 deep, as states are. Keys are names joined
with "/". In a name slashes, backslashes, "%", what cannot be seen and lone surrogates are percent-escaped, byte by byte
of UTF-8; so are the whole names "." and ".."; a name without characters is "%". Typed JSON is described in
`rlpipe.snapshot.skeleton`. Arrays lie in the file in C order and little endian, at multiples of 64 bytes, complex
numbers as real and imaginary part, bool as bytes 0 and 1; two arrays with one offset are one, and the offset of one
without elements is 0. bfloat16 and float8 are stored as unsigned integers of their size. Hashes are in lower-case hex.

Any change to this is a new version. What every version keeps: the name of the file, `format` and `version` as the first
two fields, `manifest_hash` as the last line but one, and that its SHA-256 is over the text before, with line endings of
Unix. So an rlpipe of any age tells damage from a newer version.
"""

from __future__ import annotations

FORMAT = "rlpipe-checkpoint"
"""What every manifest calls itself."""

VERSION = 1
"""The version written, and the newest one read. Every version from 1 on stays readable for good.

Before you raise it: keep golden checkpoints of the old version (tests/golden), and add what makes the old version's
JSON the new one's to `rlpipe.checkpoint.migrations`. Version 0 was the store before it was final; the last of its
several layouts can be read, nothing is promised for it.
"""

MANIFEST_NAME = "manifest.json"
"""Its presence makes a directory a checkpoint; it is written last."""

ATTACHMENTS = "model"
"""The directory of a component's attachments; no component can have this name."""

MAX_MANIFEST_SIZE = 32 * 2**20
"""Bytes; larger manifests are neither written nor read."""

MAX_LISTED = 2**14
"""Components, or attachments, in one component; more of them are neither written nor read."""
