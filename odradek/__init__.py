"""Clusters of Odradek, a Kafka-compatible broker, for a Python program or a test suite.

Everything runs in processes of its own; this package imports nothing but the standard library.
"""

__version__ = "0.1.0"
