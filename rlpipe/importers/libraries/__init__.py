"""One module or package for each foreign library; its name is the importer's id."""
