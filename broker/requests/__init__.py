"""From a request off the wire to its handler: the table of APIs, what a handler is given, and what is asked before."""
