"""Floor 1: record batches, segments, indexes, partition logs, recovery, cleaner, log manager."""
