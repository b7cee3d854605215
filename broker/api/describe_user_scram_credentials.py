"""DescribeUserScramCredentials (key 50, version 0): which SCRAM credentials users have, never the secrets themselves.

Read from ZooKeeper. A null or empty list means every user that has any.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from broker.security.scram_credentials import read_credentials, users_with_credentials
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

logger = logging.getLogger(__name__)

UNEXPECTED: Final = "The server experienced an unexpected error when processing the request."


def _error_form(
    call: Call[DescribeUserScramCredentialsRequest], code: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=message,
        results=[_failed(user.name, code, message) for user in call.request.users or ()],
    )


@api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), error_form=_error_form)
def handle(call: Call[DescribeUserScramCredentialsRequest]) -> DescribeUserScramCredentialsResponse:
    require_cluster(call, Operation.DESCRIBE)
    asked = Counter(user.name for user in call.request.users or ())
    if asked:
        results = [_describe(call, user, twice=count > 1) for user, count in asked.items()]
    else:
        results = [_found(user, infos) for user, infos in users_with_credentials(call.broker.zk).items()]
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _describe(
    call: Call[DescribeUserScramCredentialsRequest], user: str, *, twice: bool
) -> DescribeUserScramCredentialsResult:
    if user == "":
        return _failed(user, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if twice:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return _failed(user, ErrorCode.DUPLICATE_RESOURCE, text)
    try:
        infos = read_credentials(call.broker.zk, user)
    except ValueError as error:  # a name that no path can hold, as "..", or a stored credential that is none
        logger.warning("the credentials of user %r cannot be read: %s", user, error)
        return _failed(user, ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
    if not infos:
        text = f"Attempt to describe a user credential that does not exist: {user}"
        return _failed(user, ErrorCode.RESOURCE_NOT_FOUND, text)
    return _found(user, infos)


def _found(user: str, iterations: dict[int, int]) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user,
        error_message="",
        credential_infos=[CredentialInfo(mechanism=code, iterations=count) for code, count in iterations.items()],
    )


def _failed(user: str, code: ErrorCode, message: str | None) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)
