"""Files that travel with a component: listed, checked, and no part of what it is."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import xxhash

from rlpipe.checkpoint.attachments import files_in
from rlpipe.checkpoint.authenticity import sha256_of
from rlpipe.checkpoint.format import MAX_LISTED
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.reader import find_attachment, find_component, read_checkpoint
from rlpipe.checkpoint.series import Series
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import IdError, IntegrityError, ManifestError, SelectionError, UnsupportedStateError
from rlpipe.snapshot import diff
from tests.checkpoint.components import tree
from tests.checkpoint.damage import ANY_FILE, put_back, resealed

FILES = {
    "onnx/policy.onnx": bytes(range(251)) * 5_000,
    "onnx/golden.json": b"{}\r\n",
    "empty": b"",
    "c/sub/ü x.c": b"int x;\n",
}
P1 = "policies/p1"


def attached(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    folder = attached(tmp_path / "exports", FILES)
    (folder / "no files").mkdir()
    return folder


@pytest.fixture
def path(tmp_path: Path, exports: Path) -> Path:
    return write_checkpoint(tree(2), tmp_path / "ckpt", attachments={P1: exports})


def test_they_are_copied_and_listed(path: Path) -> None:
    found = {str(each.relative_to(path / P1 / "model")) for each in (path / P1 / "model").rglob("*") if each.is_file()}
    assert found == set(FILES)
    listed = json.loads((path / P1 / "manifest.json").read_text())["attachments"]
    assert listed == {f"model/{name}": [len(data), xxhash.xxh3_128_hexdigest(data)] for name, data in FILES.items()}
    assert list(listed) == sorted(listed)
    assert inspect_checkpoint(path / P1).attachments["model/empty"].size == 0
    assert find_attachment(path, P1, "model/onnx/policy.onnx").read_bytes() == FILES["onnx/policy.onnx"]
    report = verify_checkpoint(path)
    assert (report.ok, report.notes) == (True, ())
    sizes = sum(each.stat().st_size for each in path.rglob("*") if each.is_file() and each.name != "manifest.json")
    assert report.nbytes == sizes


def test_a_series_takes_them_too(exports: Path, tmp_path: Path) -> None:
    path = Series(folder=tmp_path / "runs").write(tree(2), step=1, attachments={P1: exports})
    assert find_attachment(path, P1, "model/onnx/policy.onnx").read_bytes() == FILES["onnx/policy.onnx"]


def test_they_are_no_part_of_what_a_policy_is(path: Path, tmp_path: Path) -> None:
    bare = write_checkpoint(tree(2), tmp_path / "bare")
    with_them, without = inspect_checkpoint(path), inspect_checkpoint(bare)
    assert with_them.content_hash == without.content_hash
    assert with_them.inference_hash == without.inference_hash
    assert without.attachments == {}
    assert '"attachments":{},' in (bare / P1 / "manifest.json").read_text()
    assert (path / P1 / "manifest.json").read_text() != (bare / P1 / "manifest.json").read_text()
    assert sha256_of(path / "policies") != sha256_of(bare / "policies")


def test_reading_needs_none_of_them(path: Path) -> None:
    shutil.rmtree(path / P1 / "model")
    assert diff(tree(2), read_checkpoint(path)).same
    findings = verify_checkpoint(path).findings
    assert [each.file for each in findings] == sorted(f"model/{name}" for name in FILES)


def test_a_component_that_is_copied_away_keeps_them(path: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(path / P1, tmp_path / "copy")
    shutil.rmtree(path)
    assert verify_checkpoint(copy).ok
    assert find_attachment(copy, "", "model/empty").read_bytes() == b""


def test_what_is_written_again_lacks_them(path: Path, tmp_path: Path) -> None:
    again = write_checkpoint(read_checkpoint(path), tmp_path / "again", backend="pickle")
    assert not list(again.rglob("model"))
    write_checkpoint(tree(2), path, if_exists="replace")
    assert not list(path.rglob("model"))
    assert verify_checkpoint(path).ok


def test_a_save_that_links_lists_them_too(path: Path, exports: Path, tmp_path: Path) -> None:
    linked = write_checkpoint(tree(2), tmp_path / "next", previous=path, attachments={P1: exports})
    assert (linked / P1 / "manifest.json").stat().st_nlink == 2
    assert verify_checkpoint(linked).ok
    bare = write_checkpoint(tree(2), tmp_path / "bare", previous=path)
    assert (bare / P1 / "manifest.json").stat().st_nlink == 1
    assert verify_checkpoint(bare).ok


@pytest.mark.parametrize("damage", ANY_FILE)
def test_any_damage_is_found(path: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(path, tmp_path / "original")
    for name in ("onnx/policy.onnx", "onnx/golden.json", "c/sub/ü x.c"):
        if damage in ("first_page_zeroed", "last_page_zeroed", "pages_swapped") and "policy" not in name:
            continue
        ANY_FILE[damage](path / P1 / "model" / name)
        found = [(each.component, each.file) for each in verify_checkpoint(path).findings]
        assert found == [(P1, f"model/{name}")]
        with pytest.raises(IntegrityError, match="damaged"):
            find_attachment(path, P1, f"model/{name}")
        assert diff(tree(2), read_checkpoint(path)).same
        put_back(tmp_path / "original", path)


def test_every_single_bit_of_one(path: Path) -> None:
    file = path / P1 / "model" / "c" / "sub" / "ü x.c"
    known = file.read_bytes()
    for bit in range(8 * len(known)):
        data = bytearray(known)
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        assert [each.file for each in verify_checkpoint(path).findings] == ["model/c/sub/ü x.c"], bit


def test_a_stale_one_is_found_and_a_new_one_is_a_note(path: Path) -> None:
    (path / P1 / "model" / "onnx" / "golden.json").write_bytes(b"[]\r\n")
    assert [each.file for each in verify_checkpoint(path).findings] == ["model/onnx/golden.json"]
    (path / P1 / "model" / "onnx" / "golden.json").write_bytes(FILES["onnx/golden.json"])
    (path / P1 / "model" / "more").write_bytes(b"x")
    (path / "policies" / "p0" / "model").mkdir()
    (path / "policies" / "p0" / "model" / "less").write_bytes(b"x")
    report = verify_checkpoint(path)
    assert report.ok
    assert set(report.notes) == {
        f"policies/{each} is not listed, and was ignored" for each in ("p0/model/less", "p1/model/more")
    }


def test_a_git_lfs_pointer_says_how_to_fetch_it(path: Path) -> None:
    ANY_FILE["made_a_pointer_of_lfs"](path / P1 / "model" / "onnx" / "policy.onnx")
    assert "git lfs pull" in str(verify_checkpoint(path).findings)
    with pytest.raises(IntegrityError, match="git lfs pull"):
        find_attachment(path, P1, "model/onnx/policy.onnx")


def test_what_cannot_be_attached_is_refused_before_anything_is_written(exports: Path, tmp_path: Path) -> None:
    def save(component: str, folder: Path) -> None:
        write_checkpoint(tree(2), tmp_path / "new" / "ckpt", attachments={component: folder})

    with pytest.raises(SelectionError, match=r"policies/p1"):
        save("policies/p11", exports)
    with pytest.raises(UnsupportedStateError, match="no folder"):
        save(P1, tmp_path / "nothing")
    with pytest.raises(UnsupportedStateError, match="without files"):
        save(P1, exports / "no files")
    (exports / "a").symlink_to(exports / "empty")
    with pytest.raises(UnsupportedStateError, match="what links lead to"):
        save(P1, exports)
    (exports / "a").unlink()
    many = tmp_path / "many"
    many.mkdir()
    for number in range(MAX_LISTED + 1):
        (many / str(number)).touch()
    with pytest.raises(UnsupportedStateError, match="can be listed"):
        save(P1, many)
    assert not (tmp_path / "new").exists()
    save(P1, exports)


@pytest.mark.skipif(os.name == "nt", reason="names that Windows lacks")
@pytest.mark.parametrize(
    "names",
    [["a", "A"], ["CON.txt"], ["a:b"], ["a\\b"], ["a?"], ["a\n"], ["a."], ["a "], [os.fsdecode(b"\xff")], ["e\u0301"]],
)
def test_names_that_not_every_system_has_are_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(IdError, match="side by side"):
        files_in(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model/../../x", [1, "0" * 32]),
        ("model//x", [1, "0" * 32]),
        ("/etc/passwd", [1, "0" * 32]),
        ("state.h5", [1, "0" * 32]),
        ("model", [1, "0" * 32]),
        ("model/empty/x", [1, "0" * 32]),
        ("model/x\ud800", [1, "0" * 32]),
        ("model/x", [-1, "0" * 32]),
        ("model/x", [1.0, "0" * 32]),
        ("model/x", [True, "0" * 32]),
        ("model/x", [1, "0" * 31]),
        ("model/x", [1]),
        ("model/x", "x"),
    ],
)
def test_manifests_that_list_something_else(path: Path, name: str, value: object) -> None:
    resealed(path / P1 / "manifest.json", lambda fields: fields["attachments"].update({name: value}))
    with pytest.raises(ManifestError, match="attachments"):
        read_checkpoint(path / P1)
    assert not verify_checkpoint(path / P1).ok


def test_what_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(SelectionError, match=r"model/onnx/policy\.onnx"):
        find_attachment(path, P1, "model/onnx/policy.onxx")
    with pytest.raises(SelectionError):
        find_attachment(path, "policies/p7", "model/empty")
    assert find_component(path, P1) == path / P1
