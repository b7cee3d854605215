"""SASL mechanisms without I/O, the JAAS text that configures them, and the client's side of an authentication."""
