"""What every export target has to keep; a subclass in `tests/exporters/targets` names one and brings an own reader."""

from __future__ import annotations

import ast
import dataclasses
import getpass
import inspect
import json
import socket
import subprocess
import sys
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rlpipe.errors import ConfigError, UnsupportedModuleError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.target import Target, install_hint, resolve, target_ids
from rlpipe.exporters.verify import BATCHES, verify
from tests.exporters.graphs import EXAMPLES, Example
from tests.exporters.steps import STEPS, WITH_MEMORY, Step

Array = np.ndarray[Any, Any]
CASES: Mapping[str, Callable[[], Example | Step]] = {**EXAMPLES, **STEPS}
"""Policies of all kinds: spaces, images beside vectors, memory, masks, noise, several outputs."""
LARGE = ("many_inputs", "branches")
ESSENTIALS = {"rlpipe.fingerprint": "0123456789ab", "rlpipe.trained": "true"}


@dataclasses.dataclass(frozen=True)
class Written:
    """A file of a target, with the graph that it was made of."""

    name: str
    example: Example | Step
    file: Path


class TargetSuite(ABC):
    """Subclass as `TestOnnx(TargetSuite)`.

    Attributes:
        target_id: The target.
        unsupported: Case that the target cannot express -> what it says about it.
    """

    target_id: ClassVar[str]
    unsupported: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def act(self, file: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """What the file answers, read without rlpipe's own loader."""

    @abstractmethod
    def essentials(self, file: Path) -> dict[str, str]:
        """The essentials inside the file, read without rlpipe."""

    @property
    def target(self) -> Target:
        return resolve(self.target_id)

    @pytest.fixture(scope="class", params=CASES)
    @classmethod
    def written(cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
        """A file of every case that the target can express."""
        if request.param in cls.unsupported:
            pytest.skip(cls.unsupported[request.param])
        return cls.write(request.param, tmp_path_factory.mktemp(request.param))

    @pytest.fixture(scope="class", params=LARGE)
    @classmethod
    def one(cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
        """A file of two of them, for what takes long."""
        return cls.write(request.param, tmp_path_factory.mktemp("one"))

    @classmethod
    def write(cls, name: str, folder: Path) -> Written:
        example = CASES[name]()
        target = resolve(cls.target_id)
        file = folder / target.FILE_NAME
        with captured():
            target.export(example.traced(), file, target.Options(), ESSENTIALS)
        return Written(name, example, file)

    def test_it_is_found_by_its_file_name(self) -> None:
        assert self.target_id in target_ids()

    def test_it_writes_one_file(self, written: Written) -> None:
        assert [path.name for path in written.file.parent.iterdir()] == [self.target.FILE_NAME]

    def test_it_acts_like_the_graph_at_every_batch_size(self, written: Written) -> None:
        truth = written.example.reference()
        for batch in BATCHES:
            feeds = {name: array[-batch:] for name, array in truth.observations.arrays.items()}
            found = self.act(written.file, feeds)
            assert list(found) == [spec.name for spec in written.example.signature.outputs]
            for spec in written.example.signature.outputs:
                expected = truth.actions[spec.name][-batch:]
                assert found[spec.name].dtype == np.dtype(spec.dtype)
                np.testing.assert_allclose(found[spec.name], expected, atol=1e-5, rtol=1e-5)

    def test_it_remembers_over_episodes(self, written: Written) -> None:
        """200 steps with resets, its own memory handed back to it."""
        if written.name not in WITH_MEMORY:
            pytest.skip("has no memory")
        example = written.example
        assert isinstance(example, Step)
        with captured():
            runner = self.target.load(str(written.file))
        fed = example.draw(200, 3, seed=11)
        found, expected = example.played(runner, fed), example.played(example.compute, fed)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, atol=1e-5, rtol=1e-5)

    def test_what_it_cannot_express_it_refuses(self, tmp_path: Path) -> None:
        for name, text in self.unsupported.items():
            with pytest.raises(UnsupportedModuleError) as caught:
                self.write(name, tmp_path)
            assert text in str(caught.value)
            assert list(tmp_path.iterdir()) == []

    def test_verification_agrees(self, one: Written) -> None:
        signature, truth = one.example.signature, one.example.reference()
        found = verify(self.target, one.file, signature, truth, Tolerance(atol=1e-5, rtol=1e-5))
        assert (found.status, found.message) == ("ok", "")
        assert found.max_error <= 1e-5

    def test_its_loader_stands_alone(self) -> None:
        """Its source names nothing from outside but builtins, so that it can be handed to other programs."""
        (function,) = ast.parse(inspect.getsource(self.target.load)).body
        assert isinstance(function, ast.FunctionDef)
        assert function.name == "load"
        assert "rlpipe" not in {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}

    def test_the_loader_refuses_other_inputs(self, one: Written) -> None:
        arrays = {name: array[:2] for name, array in one.example.reference().observations.arrays.items()}
        with captured():
            step = self.target.load(str(one.file))
            assert step(arrays)
            for others in (
                {f"{name}x": array for name, array in arrays.items()},
                {name: array.astype(np.float64) for name, array in arrays.items()},
                {name: array[..., :-1] if array.ndim > 1 else array for name, array in arrays.items()},
            ):
                with pytest.raises(Exception, match=r"."):
                    step(others)

    def test_the_essentials_are_inside(self, written: Written) -> None:
        assert self.essentials(written.file) == ESSENTIALS

    def test_nothing_of_the_machine_is_inside(self, written: Written) -> None:
        host = socket.gethostname()
        private = [str(written.file.parent), str(Path.cwd()), sys.prefix, f"/{getpass.getuser()}/", "site-packages"]
        private += [host] if len(host) > 5 else []
        for name, data in _contents(written.file):
            assert [text for text in private if text.encode() in data] == [], name

    @pytest.mark.slow
    def test_a_fresh_process_writes_the_same_bytes(self, one: Written, tmp_path: Path) -> None:
        code = (
            "import importlib, sys, pathlib\n"
            "suite = importlib.import_module(sys.argv[1])\n"
            "getattr(suite, sys.argv[2]).write(sys.argv[3], pathlib.Path(sys.argv[4]))\n"
        )
        command = [sys.executable, "-c", code, type(self).__module__, type(self).__name__, one.name, str(tmp_path)]
        done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (tmp_path / one.file.name).read_bytes() == one.file.read_bytes()

    @pytest.mark.parametrize("name", ["atol", "rtol"])
    @pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
    def test_its_options_refuse_tolerances_that_are_none(self, name: str, value: float) -> None:
        with pytest.raises(ConfigError) as caught:
            self.target.Options(**{name: value})
        assert caught.value.subject.endswith(f".{name}")
        assert caught.value.fix

    def test_its_options_are_frozen_and_have_tolerances(self) -> None:
        options = self.target.Options()
        assert (options.atol, options.rtol) == (1e-5, 1e-5)
        assert json.loads(json.dumps(dataclasses.asdict(options))) == dataclasses.asdict(options)
        with pytest.raises(dataclasses.FrozenInstanceError):
            options.atol = 1.0

    def test_here_nothing_is_missing(self) -> None:
        assert self.target.missing_dependency() is None
        assert install_hint("numpy", "no_such_package_at_all") is not None

    def test_importing_it_loads_no_heavy_package(self) -> None:
        code = f"import sys, rlpipe.exporters.targets.{self.target_id}; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
        )
        loaded = {name.partition(".")[0] for name in done.stdout.split()}
        assert loaded & {"torch", "onnx", "onnxruntime", "onnxscript", "h5py", "hydra"} == set()


def _contents(file: Path) -> Iterator[tuple[str, bytes]]:
    """The file itself, and what is packed in it."""
    yield file.name, file.read_bytes()
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            for name in packed.namelist():
                yield name, packed.read(name)
