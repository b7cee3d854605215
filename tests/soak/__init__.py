"""A broker at steady work for a long time, and whether anything of it grows."""
