"""From a command line to the settings of a run: the schema, the mending of the command, the validation."""
