"""Where the arrays of an HDF5 file lie. Run as a program, by its path, in a process of its own.

The HDF5 library reads out of bounds, loops and asks for any amount of memory on bytes that were made for it, so it is
never run where rlpipe runs. Here it has limits of memory and time, follows hard links only, and reads no array: it says
where they lie, and whoever started this process believes nothing of it that it has not checked.

The job comes as JSON on stdin, the answer goes as JSON to stdout:
`{"arrays": [[names, dtype, shape, offset, address]], "empty": [names], "attributes": [names],
"refused": [[names, why]]}`, or `{"damaged": why}`, or `{"unsafe": why}`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 32
MAX_OBJECTS = 65_536
MAX_TEXT = 4 * 2**20
"""Characters of all paths together."""

NUMBERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")


class TooMuchError(Exception):
    """More than an honest file has."""


class Survey:
    """One walk over a file.

    Args:
        h5py: The package, which is imported only once the limits are set.
        path: The file.
    """

    def __init__(self, h5py: Any, path: str) -> None:
        self.h5 = h5py
        self.path = path
        self.types = _types(h5py)
        self.groups: set[int] = set()
        self.objects = self.text = 0
        self.place = ""
        self.found: dict[str, list[Any]] = {"arrays": [], "empty": [], "attributes": [], "refused": []}

    def run(self) -> dict[str, list[Any]]:
        """The answer."""
        access = self.h5.h5p.create(self.h5.h5p.FILE_ACCESS)
        access.set_file_locking(False, ignore_when_disabled=True)
        file = self.h5.h5f.open(self.path.encode("utf-8", "surrogateescape"), self.h5.h5f.ACC_RDONLY, access)
        self._visit_group(self.h5.h5o.open(file, b"/"), ())
        return self.found

    def _visit_group(self, group: Any, path: tuple[str, ...]) -> None:
        self._note_attributes(group, path)
        names = list(self._names(group, path))
        if not names and path:
            self.found["empty"].append(path)
        for name in names:
            self._visit_link(group, name, (*path, name.decode()))

    def _names(self, group: Any, path: tuple[str, ...]) -> Iterator[bytes]:
        """The names in a group that mean one link each; a "/" in one would lead on through other links."""
        above = sum(map(len, path))
        raw: Counter[bytes] = Counter()

        def take(name: bytes) -> bool | None:
            """Anything but None ends the iteration; raising in there would leave h5py's lock behind."""
            raw[name] += 1
            self.objects += 1
            self.text += len(name) + above
            return self._is_too_much() or None

        group.links.iterate(take)
        if self._is_too_much():
            raise TooMuchError(f"more than {MAX_OBJECTS} objects or {MAX_TEXT} characters of names")
        for name, times in sorted(raw.items()):
            if times > 1 or name in (b"", b".", b"..") or b"/" in name or not _is_text(name):
                self._refuse((*path, repr(name)), "a name that is no plain name, or is there twice")
            else:
                yield name

    def _is_too_much(self) -> bool:
        return self.objects > MAX_OBJECTS or self.text > MAX_TEXT

    def _visit_link(self, group: Any, name: bytes, path: tuple[str, ...]) -> None:
        self.place = "/".join(path)
        link = group.links.get_info(name)
        if link.type != self.h5.h5l.TYPE_HARD:
            kinds = {self.h5.h5l.TYPE_SOFT: "a soft link", self.h5.h5l.TYPE_EXTERNAL: "a link into another file"}
            self._refuse(path, kinds.get(link.type, "a link of an unknown kind"))
            return
        found = self.h5.h5o.open(group, name)
        if isinstance(found, self.h5.h5d.DatasetID):
            self._visit_dataset(found, path, link.u)
        elif not isinstance(found, self.h5.h5g.GroupID):
            self._refuse(path, "an object that is neither a group nor a dataset")
        elif link.u in self.groups:
            self._refuse(path, "a group that is reached twice")
        elif len(path) > MAX_DEPTH:
            raise TooMuchError(f"groups nested more than {MAX_DEPTH} deep")
        else:
            self.groups.add(link.u)
            self._visit_group(found, path)

    def _visit_dataset(self, dataset: Any, path: tuple[str, ...], address: int) -> None:
        self._note_attributes(dataset, path)
        kind = self._kind(dataset.get_type())
        if objection := self._objection(dataset) if kind else "a type that is not plain numbers":
            self._refuse(path, objection)
            return
        self.found["arrays"].append((path, kind, dataset.get_space().shape, dataset.get_offset(), address))

    def _objection(self, dataset: Any) -> str:
        """What is wrong with how a dataset is stored, or ""."""
        plan, space = dataset.get_create_plist(), dataset.get_space()
        if space.get_simple_extent_type() == self.h5.h5s.NULL:
            return "a dataset without a shape"
        if plan.get_external_count():
            return "numbers that lie in another file"
        if plan.get_layout() != self.h5.h5d.CONTIGUOUS:
            layouts = {self.h5.h5d.CHUNKED: "chunks", self.h5.h5d.COMPACT: "its header"}
            return f"numbers in {layouts.get(plan.get_layout(), 'other datasets (a virtual one)')}, not in one piece"
        if plan.get_nfilters():
            return "numbers behind a filter"
        needed = dataset.get_type().get_size()
        for length in space.shape:
            needed *= length
        if dataset.get_storage_size() != needed or (needed and dataset.get_offset() is None):
            return f"{dataset.get_storage_size()} bytes stored for an array of {needed}"
        return ""

    def _kind(self, found: Any) -> str:
        candidates = self.types.get((found.get_class(), found.get_size()), ())
        return next((kind for kind, known in candidates if known.equal(found)), "")

    def _note_attributes(self, found: Any, path: tuple[str, ...]) -> None:
        if self.h5.h5a.get_num_attrs(found):
            self.found["attributes"].append(path)

    def _refuse(self, path: tuple[str, ...], why: str) -> None:
        self.found["refused"].append((path, why))


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _types(h5py: Any) -> dict[tuple[int, int], list[tuple[str, Any]]]:
    """(class, size) of a type -> dtypes that are exactly such a type, each with it."""
    import numpy as np

    h5t = h5py.h5t
    kinds = [order + number for number in NUMBERS for order in "<>"] + ["|b1"]
    known = [(kind, h5t.py_create(np.dtype(kind), logical=True)) for kind in kinds]
    known += [("|i1", h5t.STD_I8BE), ("|u1", h5t.STD_U8BE)]
    found: dict[tuple[int, int], list[tuple[str, Any]]] = {}
    for kind, one in known:
        found.setdefault((one.get_class(), one.get_size()), []).append((kind, one))
    return found


def limit(memory: int, seconds: float) -> None:
    """From here on so much more memory and time of the processor, where the system can hold a process to that."""
    try:
        import resource
        import signal
    except ImportError:
        return  # Windows: the time is kept by whoever waits
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - nothing more is imported than needed
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    except (OSError, ValueError):
        pass  # macOS has neither
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, seconds)


def answer_for(h5py: Any, path: str) -> dict[str, Any]:
    """The answer for a file, whatever is in it."""
    survey = Survey(h5py, path)
    try:
        return survey.run()
    except TooMuchError as error:
        return {"unsafe": str(error)}
    except MemoryError:
        return {"unsafe": "a need for more memory than an honest file has"}
    except Exception as error:  # noqa: BLE001 - h5py raises anything for bytes that are wrong
        return {"damaged": f"{survey.place or '/'}: {error}"[:300]}


def main() -> None:
    """Do the job that stands on stdin."""
    job = json.load(sys.stdin)
    sys.path[:] = job["search"]
    import h5py

    types_are_made = _types(h5py)  # what they take must not count
    del types_are_made
    limit(job["memory"], job["seconds"])
    json.dump(answer_for(h5py, job["path"]), sys.stdout)


if __name__ == "__main__":
    main()
