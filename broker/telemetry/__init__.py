"""Metrics that clients push to the broker (KIP-714): who shall push what, what came, and how it is shown."""
