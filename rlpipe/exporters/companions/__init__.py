"""What lies beside an artifact's files: scripts, golden vectors and a page for people, made from the record alone."""
