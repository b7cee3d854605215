"""Floor 3: the PySpark data source (batch, streaming, sink) and the jobs.

Whatever is imported of it, on driver or executors, comes through here: so this is where it is checked that the packages
it needs are ours.
"""

from spark_jobs.guard import check_packages

check_packages()
