"""YAML of foreign runs as plain values: a tag is never looked up, imported or called.

Trainers dump their settings with tags of Python (``!!python/tuple``, ``!!python/object/apply:builtins.slice``, names of
classes). Here a tagged mapping is a dict, a tagged sequence a list, a tagged scalar its text, whatever the tag says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from rlpipe.errors import UnsafePayloadError

MAX_BYTES = 8 * 2**20
_MAX_EVENTS = 400_000
_MAX_DEPTH = 60
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, where PyYAML was built with it; it is ten times as fast."""

_BROKEN = (yaml.YAMLError, ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError)


class _InertLoader(_Base):  # type: ignore[misc]
    """PyYAML's safe loader, to which every tag that it does not know is only a remark on a plain value."""

    def flatten_mapping(self, node: Any) -> None:
        """Take no merge key: a few lines of them ask for any amount of memory. Take no key twice: one would be lost."""
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, "a merge key", node.start_mark)
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    found = f"the key {key.value!r} twice, again in line {key.start_mark.line + 1}"
                    raise yaml.constructor.ConstructorError(None, None, found, key.start_mark)
                seen.add((key.tag, key.value))


def _plain(loader: Any, tag: str, node: Any) -> Iterator[Any]:
    """The value below a tag; given in two steps, so that it may be named inside of itself."""
    if isinstance(node, yaml.MappingNode):
        mapping: dict[Any, Any] = {}
        yield mapping
        mapping.update(loader.construct_mapping(node))
    elif isinstance(node, yaml.SequenceNode):
        sequence: list[Any] = []
        yield sequence
        sequence.extend(loader.construct_sequence(node))
    else:
        # The name of a class or function stands in the tag, with nothing behind it.
        yield loader.construct_scalar(node) or tag.partition(":python/name:")[2]


_InertLoader.yaml_constructors = {
    f"tag:yaml.org,2002:{name}": _Base.yaml_constructors[f"tag:yaml.org,2002:{name}"]
    for name in ("null", "bool", "int", "float", "str", "seq", "map")
}
_InertLoader.yaml_multi_constructors = {"": _plain}


def read_yaml(data: bytes, *, subject: str) -> Any:
    """The value of a YAML file: dicts, lists, texts, numbers, truth values and None.

    Args:
        data: The bytes of the file.
        subject: How errors name it.

    Raises:
        UnsafePayloadError: It is no YAML, or larger or deeper than settings of a run are.
    """
    if len(data) > MAX_BYTES:
        raise _refused(subject, f"{len(data)} bytes")
    try:
        text = data.decode()
        _require_bounds(text, subject)
        return _InertLoader(text).get_single_data()
    except _BROKEN as error:
        raise _refused(subject, " ".join(str(error).split())[:200]) from None


def _require_bounds(text: str, subject: str) -> None:
    """Walk over the events, which needs no memory, before anything is built of them."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Base)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH or count > _MAX_EVENTS:
            raise _refused(subject, f"more than {_MAX_DEPTH} levels or {_MAX_EVENTS} values")


def _refused(subject: str, found: str) -> UnsafePayloadError:
    return UnsafePayloadError(
        f"{subject} is not read",
        expected=f"the YAML of a trainer's settings, at most {MAX_BYTES} bytes",
        found=found,
        fix="take the file of the run as it was written",
    )
