"""Settings of the group coordinator."""

import pytest

from broker.config.versions import MetadataVersion
from broker.groups.config import ValueVersions


@pytest.mark.parametrize(
    ("protocol", "offset", "group"),
    [("3.9", 3, 3), ("2.3", 3, 3), ("2.2", 3, 2), ("2.1-IV0", 2, 2), ("2.0", 1, 1), ("0.10.0", 1, 0)],
)
def test_older_inter_broker_protocols_write_what_old_brokers_read(protocol: str, offset: int, group: int) -> None:
    assert ValueVersions.for_protocol(MetadataVersion(protocol).at_least) == ValueVersions(offset, group)
