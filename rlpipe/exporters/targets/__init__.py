"""One file per target; a target's id is its file name. They know no module family and not each other."""
