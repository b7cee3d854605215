"""Whatever version a client speaks, its answer can be sent when it has to wait."""

from __future__ import annotations

import pytest

from network.protocol.api import API
from network.protocol.message import Response

WITH_THROTTLE_TIME = [
    (spec.response, version)
    for spec in API.values()
    if any(field.name == "throttle_time_ms" for field in spec.response.FIELDS)
    for version in range(spec.min_version, spec.max_version + 1)
]


@pytest.mark.parametrize(("response", "version"), WITH_THROTTLE_TIME)
def test_a_throttle_time_is_left_out_where_there_is_no_place_for_it(response: type[Response], version: int) -> None:
    made = response()
    made.throttle_time_ms = 5  # type: ignore[attr-defined]
    made.encode(version)
