"""The follower: fetches from the leader, cuts its log where they differ."""
