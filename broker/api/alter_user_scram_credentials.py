"""AlterUserScramCredentials (key 51, version 0): controller only; set and delete SCRAM credentials.

Refused, user by user: no listener of this broker authenticates anybody yet, and a credential that is stored looks like
one that is asked for. Nothing is written; credentials that are stored already are left alone and described.
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.controller_only import require_controller
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

NOT_ENFORCED = "This broker does not authenticate users by SCRAM yet, so no credential was changed."


def _error_form(
    call: Call[AlterUserScramCredentialsRequest], code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    request = call.request
    users = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message) for user in users]
    )


@api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), error_form=_error_form)
def handle(call: Call[AlterUserScramCredentialsRequest]) -> AlterUserScramCredentialsResponse:
    require_controller(call)
    require_cluster(call, Operation.ALTER)
    raise ApiError(ErrorCode.SECURITY_DISABLED, NOT_ENFORCED)
