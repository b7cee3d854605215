"""Keys of `__consumer_offsets`."""

import pytest

from broker.groups.records import keys
from network.protocol.errors import ProtocolError


@pytest.mark.parametrize("key", [b"", b"\x00\x01\x00\x05g", b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00\x00"])
def test_broken_keys_are_refused(key: bytes) -> None:
    with pytest.raises(ProtocolError):
        keys.decode_offset(key)
