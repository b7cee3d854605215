"""The group coordinator: groups of the classic and of the consumer protocol, and the offsets of both.

`coordinator` is the face: it finds the group and hands the request to the coordinator of the group's protocol, in
`classic` (JoinGroup and SyncGroup: the members' leader assigns) or `consumer` (KIP-848: the coordinator assigns).
`offsets` commits, fetches and removes offsets; `records` is the stored form, in `__consumer_offsets`.
"""
