"""The client that brokers, commands and jobs use."""
