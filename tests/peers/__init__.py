"""Other projects' own test suites, run by command against our servers and the real ones."""
