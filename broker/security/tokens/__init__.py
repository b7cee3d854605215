"""Delegation tokens: their znodes, what every broker knows of them, and who may do what with one (KIP-48, KIP-373)."""
