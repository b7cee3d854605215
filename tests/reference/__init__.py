"""Apache Kafka 3.9.1 from Maven: what behaviour tests are checked against."""
