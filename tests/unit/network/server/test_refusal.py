from __future__ import annotations

import pytest

from network.protocol.header import RequestHeader
from network.server.refusal import unserved


@pytest.mark.parametrize(
    ("version", "served", "cure"),
    [
        (2, (3, 11), ", only 3 to 11: the client is too old, update it"),
        (12, (3, 11), ", only 3 to 11: the client is newer than this broker and did not ask what it serves"),
        (0, None, ": the client needs another kind of broker"),
    ],
)
def test_what_is_not_served_and_what_to_do(version: int, served: tuple[int, int] | None, cure: str) -> None:
    header = RequestHeader(0, version, 1, "old-tool")
    begun = f"closed, because the request Produce (API key 0) version {version} of client 'old-tool' is not served"
    assert unserved(header, served) == begun + cure
