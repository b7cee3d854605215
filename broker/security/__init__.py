"""What is known of users, quotas and access, for the APIs that tell of it."""
