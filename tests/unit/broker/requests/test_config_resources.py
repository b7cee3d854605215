from __future__ import annotations

import pytest

from broker.requests.config_resources import alter_each
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.alter_configs import AlterConfigsResource, AlterConfigsResourceResponse

TWICE = "Each resource must appear at most once."


def resource(name: str) -> AlterConfigsResource:
    return AlterConfigsResource(resource_type=2, resource_name=name)


def test_each_resource_is_answered_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    altered: list[str] = []

    def alter(each: AlterConfigsResource) -> None:
        if each.resource_name == "refused":
            raise ApiError(ErrorCode.INVALID_CONFIG, "no such key")
        if each.resource_name == "unknown":
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if each.resource_name == "broken":
            raise ZeroDivisionError
        altered.append(each.resource_name)

    names = ["first", "twice", "refused", "broken", "unknown", "twice", "last"]
    answers = alter_each([resource(name) for name in names], alter, AlterConfigsResourceResponse)
    unknown = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message)
    assert [(each.resource_name, each.error_code, each.error_message) for each in answers] == [
        ("first", 0, None),
        ("twice", ErrorCode.INVALID_REQUEST, TWICE),
        ("refused", ErrorCode.INVALID_CONFIG, "no such key"),
        ("broken", *unknown),
        ("unknown", *unknown),
        ("twice", ErrorCode.INVALID_REQUEST, TWICE),
        ("last", 0, None),
    ]
    assert altered == ["first", "last"]
    (record,) = caplog.records
    assert "'broken'" in record.getMessage()
    assert record.exc_info is not None
