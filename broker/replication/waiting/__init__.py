"""What waits for replicas: one delayed operation a file, and their purgatories."""
