"""The in-sync replicas: their state, and how a change of them is agreed on."""
