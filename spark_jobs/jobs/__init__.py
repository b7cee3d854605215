"""Jobs, each a module with a ``main``: for ``odradek spark JOB`` and for spark-submit."""

JOBS = {
    "archive": "Topics to Parquet by topic, date and hour, exactly once; goes on where it stopped.",
    "mirror": "Topics to another cluster, with their groups' offsets translated; goes on where it stopped.",
    "reassignment-plan": "A balanced, rack-aware plan for odradek reassign, moving as few bytes as possible.",
    "restore": "Archived Parquet back to topics, with keys, headers and timestamps.",
    "segment-audit": "Check all data directories of a cluster, and replicas against each other.",
    "topic-report": "Records, sizes, keys, skew and late data of topics as one HTML page.",
    "windowed-counts": "Count records by event-time window and key into an output topic.",
}
"""Name on the command line to one line of help; the module is the name with underscores."""

# In a click context's ``meta``: a function that names the brokers of the development cluster that runs, and the file
# that says how to log in there, None for a cluster without security.
RUNNING_CLUSTER = "odradek.running-cluster"
