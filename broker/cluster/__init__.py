"""What a broker knows of its cluster: the live brokers, the controller, the finalized features."""
