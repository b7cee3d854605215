"""Floor 4: the PySpark data source (batch, streaming, sink) and the jobs."""
