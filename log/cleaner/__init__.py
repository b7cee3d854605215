"""The log cleaner: keeps the last record of each key in logs with `cleanup.policy=compact`."""
