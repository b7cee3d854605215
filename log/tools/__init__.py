"""Reading files of a data directory apart from a broker."""
