"""The record browser: what is read, which records are kept, and how bytes become text."""
