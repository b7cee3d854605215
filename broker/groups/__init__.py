"""The classic group coordinator: groups and their offsets, kept in `__consumer_offsets` in Kafka's formats."""
