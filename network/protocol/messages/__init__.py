"""One module an API (request, response and their structs) or a stored payload."""
