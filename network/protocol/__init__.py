"""Kafka's wire protocol: messages declared as data, compiled to encode and decode functions per version."""
