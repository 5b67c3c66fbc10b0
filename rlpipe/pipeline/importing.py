"""What an importer is told, out of the settings of a source."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.place import place_of
from rlpipe.errors import ConfigError
from rlpipe.importers.importer import Importer
from rlpipe.pipeline.fetched import fetched
from rlpipe.pipeline.settings import SourceSettings

_OPTIONS = ("normalizer", "policy_id")


def options_of(importer: Importer, settings: SourceSettings) -> Any:
    """The importer's options out of the source's settings.

    Raises:
        ConfigError: A setting was given that the importer does not know.
    """
    known = {field.name for field in fields(importer.Options)}
    default = SourceSettings()
    given = {name: getattr(settings, name) for name in _OPTIONS}
    if isinstance(statistics := place_of(settings.normalizer), Url):
        given["normalizer"] = str(fetched(statistics))
    given = {name: value for name, value in given.items() if value != getattr(default, name)} | dict(settings.hints)
    if unknown := given.keys() - known:
        raise ConfigError(
            f"this importer does not know source.{', source.'.join(sorted(unknown))}",
            expected=f"only {', '.join(sorted(known))}",
            found=", ".join(str(given[name]) for name in sorted(unknown)),
            fix="leave it away",
        )
    return importer.Options(**given)
