"""How the importer of a file is found, and what is said where there is none."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from rlpipe.errors import ConfigError, ForeignFormatError
from rlpipe.importers import ids, recognise, resolve
from tests.importers.sb3_zips import GOLDEN


def zipped(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, b"content")
    return stream.getvalue()


def torch_file(*, new: bool) -> bytes:
    stream = io.BytesIO()
    torch.save({"x": torch.zeros(2)}, stream, _use_new_zipfile_serialization=new)
    return stream.getvalue()


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.zeros(2))
    return stream.getvalue()


FILES = {
    "an empty file": b"",
    "a web page": b"\n<!DOCTYPE html>\n<html><title>404</title></html>",
    "a git-LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
    "a damaged or cut file of torch.save (a zip)": torch_file(new=True)[:700],
    "a damaged or cut file": (GOLDEN / "sac.zip").read_bytes()[:700],
    "a zip file with a.txt": zipped("a.txt"),
    "nothing in it": zipped(),
    "a TorchScript program": zipped("policy/data.pkl", "policy/constants.pkl", "policy/version"),
    "an exported torch program": zipped("archive/archive_format", "archive/models/model.json"),
    "a file of torch.save": torch_file(new=True),
    "a pickle": torch_file(new=False),
    "Stable-Baselines 2": zipped("data", "parameter_list", "parameters"),
    "a numpy archive": npz(),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(32),
    "a safetensors file": (8).to_bytes(8, "little") + b'{"a":{}}',
    "a gzip archive": b"\x1f\x8b\x08" + bytes(20),
    "text that begins with 'hello'": b"hello",
    "bytes of no known format": b"\x00\x01\xfe\xff" * 9,
}


@pytest.mark.parametrize("what", FILES)
def test_what_a_file_seems_to_be_is_said(what: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.pt"
    path.write_bytes(FILES[what])
    with pytest.raises(ForeignFormatError) as caught:
        recognise(path)
    assert what in caught.value.found
    assert caught.value.fix
    assert "stable_baselines3" in caught.value.expected


def test_a_zip_that_is_cut_anywhere_is_called_that(tmp_path: Path) -> None:
    whole = (GOLDEN / "ppo_box.zip").read_bytes()
    path = tmp_path / "model.zip"
    # Behind the last byte of its largest member, a zip itself, that one's directory is the last that is whole.
    for size in (*range(100, len(whole), 97), *range(5_600, 5_800, 7)):
        path.write_bytes(whole[:size])
        with pytest.raises(ForeignFormatError) as caught:
            recognise(path)
        assert "cut zip file" in caught.value.found, size


def test_paths_without_a_file_are_said_too(tmp_path: Path) -> None:
    with pytest.raises(ForeignFormatError, match="no such file"):
        recognise(tmp_path / "absent.zip")
    with pytest.raises(ForeignFormatError, match="a directory"):
        recognise(tmp_path)


def test_a_path_may_be_text(tmp_path: Path) -> None:
    assert recognise(str(GOLDEN / "dqn.zip")) == "stable_baselines3"


def test_ids_are_the_files_of_the_folder() -> None:
    assert "stable_baselines3" in ids()
    assert all(resolve(importer_id).Options() for importer_id in ids())


def test_an_unknown_id_is_an_error_with_the_closest() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("stable_baseline3")
    assert caught.value.fix == "did you mean stable_baselines3?"
