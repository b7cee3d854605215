"""Floor 1: wire protocol, reactor, request channel, handler pool, broker-to-broker client."""
