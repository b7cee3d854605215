"""Many logs: directories, loading and recovery, retention, deletion, moves."""
