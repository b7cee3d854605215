"""Log directories: replicas that move between them, high watermarks kept in them, and their failures."""
