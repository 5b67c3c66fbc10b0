"""Policies of Stable-Baselines3 and sb3-contrib: the zip that `model.save()` writes, with VecNormalize statistics.

MlpPolicy of PPO, A2C, TRPO, MaskablePPO, DQN and SAC. Verified against versions 2.6 to 2.9; older files differ in keys
that are understood too (shared layers, no copies of the features extractor, gym spaces).
"""

from rlpipe.importers.libraries.stable_baselines3.importer import Options, read, recognise

__all__ = ["Options", "read", "recognise"]
