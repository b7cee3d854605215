"""The server: acceptors, processors, the request channel and the handlers' pool."""
