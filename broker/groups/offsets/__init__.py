"""Offsets of groups: committing, fetching, transactions, expiry."""
