"""AlterUserScramCredentials (key 51, version 0): controller only; set and delete SCRAM credentials.

Every broker hears of the change by the config notification and checks the next login against it.
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.controller_only import require_controller
from broker.requests.registry import Call, api
from broker.security.scram_changes import alter
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


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
    broker, request = call.broker, call.request
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
            for user, code, message in alter(broker.zk, broker.zk_admin, request.deletions, request.upsertions)
        ]
    )
