"""The classic protocol: members join, and one of them, the leader, assigns."""
