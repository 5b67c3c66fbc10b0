"""Foreign policy files as snapshots, read without the library that wrote them and without running anything in them."""

from rlpipe.importers.importer import ImportedFile, Importer, ImportReport, ids, recognise, resolve

__all__ = ["ImportReport", "ImportedFile", "Importer", "ids", "recognise", "resolve"]
