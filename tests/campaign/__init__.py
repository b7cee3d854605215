"""Clusters of real processes under faults that a seed draws, and a checker that reads the history afterwards."""
