"""RL modules: from prepared observations to the outputs that decide."""
