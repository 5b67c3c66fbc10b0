"""Plain HDF5 files of arrays: groups, and datasets that each lie in one piece."""

from rlpipe.importers.bare_arrays import Options
from rlpipe.importers.libraries.hdf5_arrays.importer import read, recognise

__all__ = ["Options", "read", "recognise"]
