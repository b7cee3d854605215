"""Frames and files that nobody would send or write in earnest, drawn from a seed."""
