"""What torch's operators are in terms of the program's; one table per file, from operator name to rule."""
