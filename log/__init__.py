"""Floor 2: record batches, segments, indexes, partition logs, recovery, cleaner, log manager."""
