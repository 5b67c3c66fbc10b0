"""Policies of RLlib: checkpoint directories of layouts 1.0 to 2.1 and every component of them, without ray.

New stack: PPO, DQN and SAC with RLlib's default torch modules. Old stack: fully connected policies with a value
function, such as PPO's. Verified against ray 2.60.
"""

from rlpipe.importers.libraries.rllib.importer import Options, policy_ids, read, read_policies, recognise
from rlpipe.importers.libraries.rllib.survey import survey

__all__ = ["Options", "policy_ids", "read", "read_policies", "recognise", "survey"]
