"""Stores for tests: one in memory that notes what it is asked, and one that speaks S3 on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Request:
    """What a store was asked: `kind` is get, put, head, list or delete; `path` from its root; bytes that it sent."""

    kind: str
    path: str
    nbytes: int = 0


@dataclass
class Store:
    """A store under test.

    Attributes:
        root: URL of a folder of its own.
        requests: What it was asked so far.
    """

    root: str
    requests: list[Request] = field(default_factory=list)

    @property
    def files(self) -> Any:
        """fsspec's own view of it."""
        return fsspec.core.url_to_fs(self.root)[0]

    def path(self, *names: str) -> str:
        """The path of something below the root, as fsspec wants it."""
        return str(fsspec.core.url_to_fs("/".join([self.root, *names]))[1])

    def names(self, *below: str) -> list[str]:
        """Paths of all files below a folder, from there."""
        folder = self.path(*below)
        self.files.invalidate_cache()
        return sorted(str(name).removeprefix(folder).strip("/") for name in self.files.find(folder))

    @contextmanager
    def asked(self) -> Iterator[list[Request]]:
        """The requests that come while the block runs, their paths from the root."""
        before, found = len(self.requests), list[Request]()
        yield found
        root = self.path().strip("/")
        for each in self.requests[before : self._now()]:
            found.append(Request(each.kind, each.path.strip("/").removeprefix(root).strip("/"), each.nbytes))

    def _now(self) -> int:
        """How many requests there were: one more is sent, and waited for, as those of a server are told by a thread."""
        mark = f"mark-{len(self.requests)}"
        assert not self.files.exists(self.path(mark))
        for _ in range(1000):
            for index, each in enumerate(self.requests):
                if mark in each.path:
                    return index
            time.sleep(0.01)
        raise AssertionError("the server does not tell its requests")


class CountedStore(MemoryFileSystem):  # type: ignore[misc]
    """Memory that notes what it is asked, and fails where it is told to."""

    protocol = "counted"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    seen: ClassVar[list[Request]] = []
    fault: ClassVar[Callable[[Request], None]] = staticmethod(lambda _: None)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return MemoryFileSystem._strip_protocol(path.replace("counted://", "memory://"))

    def note(self, kind: str, path: str, nbytes: int = 0) -> None:
        request = Request(kind, path, nbytes)
        type(self).fault(request)
        self.seen.append(request)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        data: bytes = super().cat_file(path, start=start, end=end, **more)
        self.note("get", path, len(data))
        return data

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **more: Any) -> None:
        self.note("put", path)
        super().pipe_file(path, value, mode=mode, **more)

    def put_file(self, lpath: str, rpath: str, **more: Any) -> None:
        self.note("put", rpath)
        super().put_file(lpath, rpath, **more)

    def info(self, path: str, **more: Any) -> Any:
        self.note("head", path)
        return super().info(path, **more)

    def ls(self, path: str, detail: bool = True, **more: Any) -> Any:  # noqa: FBT002  fsspec's own signature
        self.note("list", path)
        return super().ls(path, detail=detail, **more)

    def rm_file(self, path: str) -> None:
        self.note("delete", path)
        super().rm_file(path)


@contextmanager
def counted(name: str) -> Iterator[Store]:
    """A folder of its own in memory."""
    fsspec.register_implementation("counted", CountedStore, clobber=True)
    CountedStore.fault = staticmethod(lambda _: None)
    yield Store(f"counted://{name}", CountedStore.seen)
    CountedStore.fault = staticmethod(lambda _: None)


@dataclass
class S3Server:
    """A running server.

    Attributes:
        environment: What clients need to find it.
        requests: What it was asked so far.
    """

    environment: dict[str, str]
    requests: list[Request]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server in a process of its own."""
    command = [sys.executable, str(ROOT / "tests" / "conformance" / "s3_server.py")]
    # Its requests are fewer than its clients': no proxy, no look at this machine's configuration.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first, "moto's server does not start: pip install -c constraints.txt -e '.[test]'"
    seen: list[Request] = []
    reader = threading.Thread(target=_listen, args=(process.stdout, seen), daemon=True)
    reader.start()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{json.loads(first)['port']}",
        "AWS_ACCESS_KEY_ID": "an-id",
        "AWS_SECRET_ACCESS_KEY": "a-secret-key",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    # Clients keep the endpoint that they found first.
    clients = fsspec.get_filesystem_class("s3")
    clients.clear_instance_cache()
    try:
        yield S3Server(environment, seen)
    finally:
        clients.clear_instance_cache()
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()


def _listen(lines: Any, seen: list[Request]) -> None:
    for line in lines:
        said = json.loads(line)
        kinds = {"GET": "list" if said["is_list"] else "get", "PUT": "put", "HEAD": "head", "DELETE": "delete"}
        seen.append(Request(kinds.get(said["method"], said["method"]), said["path"], said["bytes"]))
