"""How much clients may use of a broker: bytes, time, changes of topics, connections."""
