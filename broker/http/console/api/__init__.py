"""What the page asks, one file a view: functions from a client and a question to an answer that becomes JSON."""
