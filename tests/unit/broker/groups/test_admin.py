"""Listing groups."""

from broker.groups.consumer.config import MigrationPolicy
from network.protocol.errors import ErrorCode as E
from tests.support.consumer_groups import Client
from tests.support.mixed_groups import classic_group, make, type_of


def test_a_group_that_changes_its_protocol_while_it_is_listed() -> None:
    coordinator = make(MigrationPolicy.BIDIRECTIONAL)
    classic_group(coordinator)
    newcomer = Client(coordinator, "new", "t")
    assert newcomer.join().error is E.NONE
    assert type_of(coordinator) == ["consumer"]
    seen = coordinator.owned.all_groups()
    newcomer.leave()
    coordinator.owned.all_groups = lambda: seen  # type: ignore[method-assign]
    assert type_of(coordinator) == ["classic"]
