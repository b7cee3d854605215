"""Topics made, grown and deleted on behalf of clients."""
