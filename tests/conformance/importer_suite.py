"""What every importer has to do. An importer's test subclasses one of these and names its golden files."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import build
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import RlpipeError
from rlpipe.importers import ImportedFile, ids, recognise, resolve
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.identity import content_hash
from rlpipe.snapshot.state import arrays

Array = np.ndarray[Any, np.dtype[Any]]
TOLERANCE = 1e-6


def other_files(folder: Path) -> Mapping[str, Path]:
    """Files of no importer, whatever they are called."""
    contents = {
        "empty.zip": b"",
        "page.zip": b"<!DOCTYPE html><html>Not found</html>",
        "pointer.zip": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "text.pt": b"hello\n",
        "noise.zip": bytes(range(256)) * 8,
        "zip_head.zip": b"PK\x03\x04" + bytes(40),
        "pickle.pkl": b"\x80\x04}\x94.",
        "hdf5.pth": b"\x89HDF\r\n\x1a\n" + bytes(64),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    with zipfile.ZipFile(folder / "photos.zip", "w") as packed:
        packed.writestr("photo.jpg", b"\xff\xd8")
    return {path.name: path for path in folder.iterdir()}


class FileSuite(ABC):
    """Tests of one importer on small files, whatever is in them."""

    importer_id: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]]
    """Packages that must not be imported: the foreign library and what its files name."""
    flips: ClassVar[int] = 30
    """How many changed bytes of each file are tried."""

    @staticmethod
    @abstractmethod
    def examples() -> Mapping[str, Path]:
        """Name -> file."""

    @pytest.fixture(autouse=True)
    def _importer(self) -> None:
        self.importer = resolve(self.importer_id)

    def read(self, path: Path) -> ImportedFile:
        return self.importer.read(path, self.importer.Options())

    def test_is_among_the_ids(self) -> None:
        assert self.importer_id in ids()

    def test_options_have_defaults_and_are_frozen(self) -> None:
        options = self.importer.Options()
        assert is_dataclass(options)
        with pytest.raises(AttributeError):
            setattr(options, fields(options)[0].name, None)

    def test_recognises_its_files_by_content(self, tmp_path: Path) -> None:
        for name, path in self.examples().items():
            renamed = tmp_path / f"{name}.bin"
            renamed.write_bytes(path.read_bytes())
            assert recognise(renamed) == self.importer_id

    def test_leaves_other_files_alone(self, tmp_path: Path) -> None:
        for name, path in other_files(tmp_path).items():
            assert not self.importer.recognise(path), name

    def test_survives_a_checkpoint(self, tmp_path: Path) -> None:
        for name, path in self.examples().items():
            snapshot = self.read(path).snapshot
            stored = read_checkpoint(write_checkpoint(snapshot, tmp_path / name))
            assert content_hash(stored) == content_hash(snapshot)
            assert stored.metadata == snapshot.metadata

    def test_reading_twice_gives_the_same(self) -> None:
        for path in self.examples().values():
            first, second = self.read(path), self.read(path)
            assert content_hash(first.snapshot) == content_hash(second.snapshot)
            assert first.report == second.report

    def test_says_where_the_policy_came_from_and_nothing_private(self) -> None:
        for path in self.examples().values():
            imported = self.read(path)
            source = imported.snapshot.metadata["source"]
            assert source["library"] == self.importer_id
            assert source["file"] == path.name
            assert len(source["sha256"]) == 64
            told = json.dumps([dict(imported.snapshot.metadata), imported.report.imported, imported.report.notes])
            assert str(path.parent) not in told

    def test_reports_what_was_taken_and_what_was_not(self) -> None:
        for path in self.examples().values():
            report = self.read(path).report
            assert report.imported
            assert len(set(report.imported)) == len(report.imported)
            assert all(name and reason for name, reason in report.skipped)

    def test_imports_neither_torch_nor_the_library(self) -> None:
        script = (
            "import sys; from pathlib import Path; from rlpipe.importers import resolve\n"
            "importer = resolve(sys.argv[1])\n"
            "for path in sys.argv[2:]: importer.read(Path(path), importer.Options())\n"
            f"print(sorted(set({('torch', *self.libraries)!r}) & set(sys.modules)))"
        )
        paths = [str(path) for path in self.examples().values()]
        done = subprocess.run(
            [sys.executable, "-c", script, self.importer_id, *paths], capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == "[]", done.stdout + done.stderr

    def test_cut_files_are_refused(self, tmp_path: Path) -> None:
        for path in self.examples().values():
            data = path.read_bytes()
            for end in (0, 1, 10, len(data) // 2, len(data) - 1):
                cut = tmp_path / "cut"
                cut.write_bytes(data[:end])
                assert not self.importer.recognise(cut)
                with pytest.raises(RlpipeError):
                    self.read(cut)

    def test_damaged_files_raise_only_errors_of_their_own(self, tmp_path: Path) -> None:
        """A changed byte is found, or does not matter."""
        rng = np.random.default_rng(0)
        for path in self.examples().values():
            data = bytearray(path.read_bytes())
            for at in rng.integers(0, len(data), self.flips):
                changed = data.copy()
                changed[at] ^= 1 << int(rng.integers(8))
                (tmp_path / path.name).write_bytes(changed)
                with suppress(RlpipeError):
                    self.importer.recognise(tmp_path / path.name)
                    self.read(tmp_path / path.name)


class ImporterSuite(FileSuite):
    """Tests of one importer of policies.

    Beside each example lies `<stem>.npz` with `observations` (B, ...) and the trainer's `actions`.
    """

    def known(self, path: Path) -> tuple[Any, Array]:
        """Observations, and what the trainer's own policy does on them."""
        with np.load(path.with_suffix(".npz")) as known:
            return known["observations"], known["actions"]

    def act(self, policy: Policy, observations: Any) -> Array:
        """What the policy does; over steps (T, B, ...) where it remembers."""
        if not policy.memory:
            return np.asarray(policy.compute_actions(observations))
        state, found = None, []
        for one in observations:
            actions, state = policy.step(one, state)
            found.append(actions)
        return np.stack(found)

    def test_acts_as_the_trainer_did(self) -> None:
        for name, path in self.examples().items():
            observations, actions = self.known(path)
            policy = build(self.read(path).snapshot)
            assert isinstance(policy, Policy)
            found = self.act(policy, observations)
            assert found.shape == actions.shape, name
            reach = TOLERANCE * max(1.0, float(np.ptp(actions))) if actions.dtype.kind == "f" else 0
            np.testing.assert_allclose(found, actions, rtol=0, atol=reach, err_msg=name)

    def test_specs_are_complete_and_canonical(self) -> None:
        for path in self.examples().values():
            spec = self.read(path).snapshot.spec
            assert PolicySpec.from_spec(spec).to_spec() == spec
            built: Any = build(self.read(path).snapshot)
            assert built.get_spec() == spec, "the module fills in nothing that the importer left out"

    def test_roles_are_those_of_the_module(self) -> None:
        for path in self.examples().values():
            snapshot = self.read(path).snapshot
            built: Any = build(snapshot)
            assert dict(snapshot.roles) == dict(built.get_own_roles())

    def test_statistics_are_float64(self) -> None:
        for path in self.examples().values():
            state = self.read(path).snapshot.state
            assert all(array.dtype == np.float64 for array in arrays(state.get("observation", {})).values())
