"""Policies: an RL module with the stages before and behind it, from raw observations to an environment's actions."""
