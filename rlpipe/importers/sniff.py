"""What a file seems to be by its content, in words for the message that says why it is not imported."""

from __future__ import annotations

import zipfile
from pathlib import Path

from rlpipe.errors import listed

_HEAD = 1024
_COPY_AGAIN = "copy or download the file again"
_NOT_YET = "save the policy with a trainer that rlpipe imports, or build an RLModule and load the weights into it"

_SIGNATURES = (
    (b"version https://git-lfs", "a git-LFS pointer, not the file itself", "fetch the file: git lfs pull"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file that is damaged or cut", _COPY_AGAIN),
    (b"\x93NUMPY", "a numpy array", _NOT_YET),
    (b"\x1f\x8b", "a gzip archive", "unpack it and name the file inside"),
    (b"\xfd7zXZ", "an xz archive", "unpack it and name the file inside"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it and name the file inside"),
    (b"Rar!", "a rar archive", "unpack it and name the file inside"),
)
_OF_TORCH = (".pt", ".pth", ".ckpt")
_ZIP_KINDS = (
    ("constants.pkl", "a TorchScript program", "save the model itself with its trainer; a program has no architecture"),
    ("parameter_list", "a zip of Stable-Baselines 2 (TensorFlow)", "retrain or convert it with Stable-Baselines3"),
    ("archive_format", "an exported torch program (.pt2)", "name the artifact folder that it lies in"),
    ("data.pkl", "a file of torch.save (a state dict or a trainer's dict)", _NOT_YET),
    (".npy", "a numpy archive (.npz)", _NOT_YET),
)


def sniff(path: Path) -> tuple[str, str]:
    """(what the file seems to be, what to do with it)."""
    if not path.exists():
        return "no such file", "check the path"
    if path.is_dir():
        return "a directory without manifest.json", "name a checkpoint directory or a file"
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    for signature, what, fix in _SIGNATURES:
        if head.startswith(signature):
            return what, fix
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _sniff_zip(path)
    return _sniff_bytes(head)


def _sniff_zip(path: Path) -> tuple[str, str]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        return f"a damaged or cut {_zip_of(path)} ({path.stat().st_size} bytes)", _COPY_AGAIN
    if min((member.header_offset for member in members), default=0) > 0:
        # The directory is that of a zip inside, the last one that is whole.
        return f"a cut {_zip_of(path)} ({path.stat().st_size} bytes)", _COPY_AGAIN
    names = [member.filename for member in members]
    for ending, what, fix in _ZIP_KINDS:
        if any(name.endswith(ending) for name in names):
            return what, fix
    return f"a zip file with {listed(names) or 'nothing in it'}", "name the trainer's own file, as it was saved"


def _zip_of(path: Path) -> str:
    """What a zip is that cannot be looked into, by its name."""
    return "file of torch.save (a zip)" if path.suffix.lower() in _OF_TORCH else "zip file"


def _sniff_bytes(head: bytes) -> tuple[str, str]:
    if not head:
        return "an empty file", _COPY_AGAIN
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html", b"<?xml")):
        return "a web page, not a model", "download the file itself; the page may ask you to log in"
    if head[:1] == b"\x80" and head[1] in range(2, 6):
        return "a pickle (statistics, a state dict, or a whole object)", _NOT_YET
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**27:
        return "a safetensors file", _NOT_YET
    if head.isascii():
        return f"text that begins with {head[:40].decode()!r}", "name the model file"
    return f"bytes of no known format, beginning with {head[:8].hex(' ')}", "check that this is the file you mean"
