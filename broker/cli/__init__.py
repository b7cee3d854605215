"""The command line ``odradek``: one module a command group, loaded when it is used."""
