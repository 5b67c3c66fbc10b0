"""Checkpoints of rsl_rl (legged_gym, Isaac Lab, mjlab): the `model_<iteration>.pt` that its runners write.

Actors of versions 1 to 5: MLP, their empirical normalisation wherever the version keeps it, and the settings of the run
that lie beside the file (`params/agent.yaml`, `params/env.yaml`, IO descriptors). Verified against 2.3.3, 3.1.2, 4.0.1
and 5.5.1.
"""

from rlpipe.importers.libraries.rsl_rl.importer import Options, read, recognise

__all__ = ["Options", "read", "recognise"]
