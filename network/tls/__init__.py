"""Keys, certificates and contexts of TLS, by the names that Kafka's configuration has for them."""
