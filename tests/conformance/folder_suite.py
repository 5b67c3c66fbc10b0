"""What an importer of directories has to do beside what every importer has to."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from rlpipe.errors import RlpipeError
from rlpipe.importers import recognise
from rlpipe.importers.importer import FolderImporter
from tests.conformance.importer_suite import ImporterSuite, other_files


class FolderSuite(ImporterSuite):
    """Tests of one importer on small directories, each of one policy.

    An example is the directory of a policy; it may lie in a larger one that is copied with it.
    """

    @staticmethod
    @abstractmethod
    def root_of(path: Path) -> Path:
        """The directory that an example lies in and needs."""

    @staticmethod
    @abstractmethod
    def files_of(path: Path) -> tuple[Path, ...]:
        """The files that reading an example opens."""

    def copied(self, path: Path, folder: Path) -> Path:
        root = self.root_of(path)
        shutil.copytree(root, folder)
        return folder / path.relative_to(root)

    def test_is_an_importer_of_directories(self) -> None:
        assert isinstance(self.importer, FolderImporter)

    def test_recognises_its_files_by_content(self, tmp_path: Path) -> None:
        for name, path in self.examples().items():
            renamed = self.copied(path, tmp_path / f"{name}.bin")
            assert recognise(renamed) == recognise(tmp_path / f"{name}.bin") == self.importer_id

    def test_leaves_other_files_alone(self, tmp_path: Path) -> None:
        for name, path in other_files(tmp_path).items():
            assert not self.importer.recognise(path), name
        assert not self.importer.recognise(tmp_path)

    def test_cut_files_are_refused(self, tmp_path: Path) -> None:
        for name, path in self.examples().items():
            copy = self.copied(path, tmp_path / name)
            for file in self.files_of(copy):
                data = file.read_bytes()
                for end in (0, 1, len(data) // 2, len(data) - 1):
                    file.write_bytes(data[:end])
                    with pytest.raises(RlpipeError):
                        self.read(copy)
                file.write_bytes(data)

    def test_damaged_files_raise_only_errors_of_their_own(self, tmp_path: Path) -> None:
        """A changed byte is found, or does not matter."""
        rng = np.random.default_rng(0)
        for name, path in self.examples().items():
            copy = self.copied(path, tmp_path / name)
            for file in self.files_of(copy):
                data = bytearray(file.read_bytes())
                for at in rng.integers(0, len(data), self.flips):
                    changed = data.copy()
                    changed[at] ^= 1 << int(rng.integers(8))
                    file.write_bytes(changed)
                    with suppress(RlpipeError):
                        self.read(copy)
                file.write_bytes(data)
