"""What a thing is: the class that builds it, and plain JSON to build it from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as json_text
from typing import Any

from rlpipe.errors import ManifestError
from rlpipe.snapshot.moved import with_first_names

Json = Any
_FIELDS = ("class", "config", "options")


def canonical_json(value: Json) -> str:
    """The one text of a JSON value: names sorted, no spaces, ASCII, no NaN or Infinity.

    Raises:
        ValueError: The value holds a float that JSON cannot express.
    """
    # Empty objects are most of what is asked for.
    return _ENCODER.encode(value) if value or type(value) is not dict else "{}"


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
"""One for all: `json.dumps` would make a new one for each text."""


@dataclass(frozen=True)
class Spec:
    """What a component is.

    Attributes:
        class_path: Dotted path of the class that builds it.
        config: What it computes; part of the identity. Plain JSON.
        options: How it was built, such as `inference_only`; not part of the identity. Plain JSON.
    """

    class_path: str
    config: Mapping[str, Json] = field(default_factory=dict)
    options: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Plain JSON, the inverse of `from_json`."""
        return {"class": self.class_path, "config": dict(self.config), "options": dict(self.options)}

    def text(self) -> str:
        """Canonical JSON of `to_json`."""
        config, options = canonical_json(self.config), canonical_json(self.options)
        return f'{{"class":{json_text(self.class_path)},"config":{config},"options":{options}}}'

    @classmethod
    def from_json(cls, value: Json) -> Spec:
        """The spec of its JSON.

        Raises:
            ManifestError: Fields missing, unknown or of another type.
        """
        if not isinstance(value, dict) or sorted(value) != sorted(_FIELDS):
            raise ManifestError(
                "this is no spec", expected=f"an object with {', '.join(_FIELDS)}", found=repr(value)[:80]
            )
        class_path, config, options = (value[name] for name in _FIELDS)
        if not isinstance(class_path, str) or not isinstance(config, dict) or not isinstance(options, dict):
            raise ManifestError(
                "a field of the spec has the wrong type",
                expected="class: str, config and options: objects",
                found=repr(value)[:80],
            )
        return cls(class_path, config, options)

    def identity(self) -> str:
        """Canonical JSON of what the component computes; classes under the first names that they had."""
        return with_first_names(f'{{"class":{json_text(self.class_path)},"config":{canonical_json(self.config)}}}')
