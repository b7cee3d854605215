"""The files of a partition and of a log directory, each with its format."""
