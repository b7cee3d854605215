"""Who commits offsets."""

from __future__ import annotations

from typing import NamedTuple


class Committer(NamedTuple):
    """Who commits; all unset means nobody in particular (a simple consumer or an administrator).

    `generation_id` is the member epoch where the group is one of the consumer protocol, whose members must commit in
    a version that knows epochs.
    """

    group_id: str
    member_id: str = ""
    group_instance_id: str | None = None
    generation_id: int = -1
    knows_epochs: bool = False

    @property
    def is_anonymous(self) -> bool:
        """Whether the request names nobody."""
        return self.generation_id < 0 and not self.member_id and self.group_instance_id is None


class TransactionalProducer(NamedTuple):
    """Who commits offsets in a transaction."""

    producer_id: int
    epoch: int
    transactional_id: str
