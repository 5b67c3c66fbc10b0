"""Pickles of nested dicts of numpy arrays."""

from rlpipe.importers.bare_arrays import Options
from rlpipe.importers.libraries.pickle_arrays.importer import read, recognise

__all__ = ["Options", "read", "recognise"]
