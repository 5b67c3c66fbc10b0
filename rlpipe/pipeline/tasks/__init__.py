"""One file per task, found by its name: ``run(settings, *, progress) -> Report`` and ``USES``."""
