"""Checkpoints of rsl_rl (legged_gym, Isaac Lab, mjlab): the `model_<iteration>.pt` that its runners write.

Actors of versions 1 to 5: MLP, LSTM and GRU, with their empirical normalisation wherever the version keeps it, and what
the settings of the run beside the file say (`params/agent.yaml`, `params/env.yaml`, IO descriptors). Verified against
2.3.3, 3.1.2, 3.3.0, 4.0.1 and 5.5.1; version 1 writes what version 2 writes without normalisation.
"""

from rlpipe.importers.libraries.rsl_rl.importer import Options, read, recognise

__all__ = ["Options", "read", "recognise"]
