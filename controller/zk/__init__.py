"""ZooKeeper access: one session, Kafka's znode paths and payloads, and typed operations over them."""
