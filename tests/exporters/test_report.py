"""What rows say of their files."""

from __future__ import annotations

from rlpipe.exporters.report import FileFacts, TargetReport


def test_a_row_and_its_record_tell_the_size_of_the_file_that_runs() -> None:
    files = tuple(FileFacts(path=f"c99/{name}", size=size, sha256="") for name, size in (("policy.c", 7), ("a.h", 5)))
    row = TargetReport(target="c99", status="ok", files=files)
    assert (row.size, row.to_json()["size"], row.record()["size"]) == (7, 7, 7)
    assert [file["size"] for file in row.record()["files"]] == [7, 5]
    assert TargetReport(target="c99", status="failed").size == 0
