"""A server on the loopback that speaks S3 (moto's), and tells each request: method, path, range, bytes of the answer.

A process of its own: moto changes botocore where it is imported.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002  werkzeug's own name
        """Say nothing: stdout is for requests."""


SERVED = DomainDispatcherApplication(create_backend_app)


LOCK = threading.Lock()


def tell(line: dict[str, Any]) -> None:
    """A line at once, also where many threads tell."""
    with LOCK:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def told(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    def begin(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        sent = {name.lower(): value for name, value in headers}
        is_head = environ["REQUEST_METHOD"] == "HEAD"
        line = {
            "method": environ["REQUEST_METHOD"],
            # WSGI hands the bytes of a path on as latin-1.
            "path": environ["PATH_INFO"].encode("latin-1").decode(),
            "bytes": 0 if is_head else int(sent.get("content-length", 0)),
            "is_list": "list-type" in environ.get("QUERY_STRING", ""),
        }
        tell(line)
        return start(status, headers, *more)

    return SERVED(environ, begin)


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, told, threaded=True, request_handler=Silent)
    tell({"port": server.server_port})
    server.serve_forever()
