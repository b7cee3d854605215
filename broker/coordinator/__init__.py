"""What the group and the transaction coordinator stand on: an internal topic, and who owns which partition of it."""
