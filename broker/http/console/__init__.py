"""The console: a page with the whole cluster in it, served by each broker under `/console`.

Everything about the cluster is asked with the wire protocol, as any client asks it: as nobody in particular on a
plaintext listener, or as the user who logs in, so that a page shows what that user may see and nothing else.
"""
