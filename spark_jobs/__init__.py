"""Floor 3: the PySpark data source (batch, streaming, sink) and the jobs."""
