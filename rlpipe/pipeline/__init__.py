"""Tasks: sources, pure functions and sinks put together, one file per task."""
