"""The RL modules that are torch networks: encoders, heads, and one file per module family."""
