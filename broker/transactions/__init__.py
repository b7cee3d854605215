"""Transaction coordinator (KIP-98): states, `__transaction_state`, markers, timeouts.

Reading order: `state` (the table), `records` (stored form), `store` (ids by partition and their log), `coordinator`
(what the APIs do), `markers` (what goes to partition leaders), `verification` (what partition leaders ask back), and
`producer_ids` (where new ids come from).
"""
