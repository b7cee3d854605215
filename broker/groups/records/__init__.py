"""Groups and offsets as records of `__consumer_offsets`: keys, values, loading and writing."""
