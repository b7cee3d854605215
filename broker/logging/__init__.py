"""Where log lines go and what they look like: files as Kafka separates them, text or JSON, levels, the request log."""
