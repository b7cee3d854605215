"""Error codes of the protocol, and the exceptions that carry them.

Codes, names and the retriable flag are Kafka's; the texts are what a person reads when no better message is at
hand: Kafka's where they go on the wire and clients show or compare them.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """A code in a response; an int on the wire."""

    retriable: bool
    """The same request may succeed later without anybody changing it."""
    invalid_metadata: bool
    """Retriable after the client has refreshed its metadata."""
    message: str
    """What the code means, in a short phrase."""

    def __new__(cls, code: int, flags: str, message: str) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = "R" in flags
        member.invalid_metadata = "M" in flags
        member.message = message
        return member

    UNKNOWN_SERVER_ERROR = -1, "", "the broker failed in a way it did not expect"
    NONE = 0, "", "no error"
    OFFSET_OUT_OF_RANGE = 1, "", "the offset is outside of what the partition holds"
    CORRUPT_MESSAGE = 2, "R", "the record batch is damaged: its checksum, size or format is wrong"
    UNKNOWN_TOPIC_OR_PARTITION = 3, "RM", "This server does not host this topic-partition."
    INVALID_FETCH_SIZE = 4, "", "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, "RM", "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, "RM", "this broker is not the leader, or not a replica, of the partition"
    REQUEST_TIMED_OUT = 7, "R", "the time limit passed before the request was completed"
    BROKER_NOT_AVAILABLE = 8, "", "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "RM", "the replica is not available on this broker"
    MESSAGE_TOO_LARGE = 10, "", "the record batch is larger than the topic allows"
    STALE_CONTROLLER_EPOCH = 11, "", "the controller that sent this has been replaced"
    OFFSET_METADATA_TOO_LARGE = 12, "", "the metadata string of the committed offset is too long"
    NETWORK_EXCEPTION = 13, "RM", "the connection was lost before an answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, "R", "the coordinator is still loading its state"
    COORDINATOR_NOT_AVAILABLE = 15, "R", "there is no coordinator at the moment"
    NOT_COORDINATOR = 16, "R", "another broker is the coordinator"
    INVALID_TOPIC_EXCEPTION = 17, "", "the topic name is illegal, or the operation is not allowed on this topic"
    RECORD_LIST_TOO_LARGE = 18, "", "the record batch is larger than a log segment"
    NOT_ENOUGH_REPLICAS = 19, "R", "there are fewer in-sync replicas than required; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "R", "the records were written, but to fewer in-sync replicas than required"
    INVALID_REQUIRED_ACKS = 21, "", "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "", "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, "", "the protocols of the member do not fit those of the group"
    INVALID_GROUP_ID = 24, "", "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "", "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, "", "the session timeout is outside of the broker's limits"
    REBALANCE_IN_PROGRESS = 27, "", "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "", "the offset commit is too large"
    TOPIC_AUTHORIZATION_FAILED = 29, "", "no permission for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, "", "no permission for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "", "no permission for the cluster"
    INVALID_TIMESTAMP = 32, "", "a record timestamp is out of the allowed range"
    UNSUPPORTED_SASL_MECHANISM = 33, "", "the SASL mechanism is not enabled"
    ILLEGAL_SASL_STATE = 34, "", "a SASL request came at the wrong time"
    UNSUPPORTED_VERSION = 35, "", "the version of the API, or the feature, is not supported"
    TOPIC_ALREADY_EXISTS = 36, "", "the topic exists already"
    INVALID_PARTITIONS = 37, "", "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, "", "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "", "the replica assignment is not valid"
    INVALID_CONFIG = 40, "", "the configuration is not valid"
    NOT_CONTROLLER = 41, "R", "This is not the correct controller for this cluster."
    INVALID_REQUEST = (
        42,
        "",
        (
            "This most likely occurs because of a request being malformed by the client library o"
            "r the message was sent to an incompatible broker. See the broker logs for more details."
        ),
    )
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "", "the partition's record format does not support this"
    POLICY_VIOLATION = 44, "", "a policy of the cluster forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "", "the producer's sequence number leaves a gap"
    DUPLICATE_SEQUENCE_NUMBER = 46, "", "the sequence number was used before"
    INVALID_PRODUCER_EPOCH = 47, "", "the producer epoch is too old"
    INVALID_TXN_STATE = 48, "", "the transaction is in a state that does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, "", "the transactional id belongs to another producer id"
    INVALID_TRANSACTION_TIMEOUT = 50, "", "the transaction timeout is above the maximum"
    CONCURRENT_TRANSACTIONS = 51, "R", "an earlier operation on the transaction is still running"
    TRANSACTION_COORDINATOR_FENCED = 52, "", "a newer transaction coordinator has taken over"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "", "no permission for the transactional id"
    SECURITY_DISABLED = 54, "", "no authorizer is configured"
    OPERATION_NOT_ATTEMPTED = 55, "", "not attempted, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, "RM", "the log directory has failed"
    LOG_DIR_NOT_FOUND = 57, "", "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "", "SASL authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "", "the broker has no state for this producer id"
    REASSIGNMENT_IN_PROGRESS = 60, "", "a reassignment of the partition is under way"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "", "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "", "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "", "the caller is neither owner nor renewer of the delegation token"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "", "delegation tokens may not be requested over this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "", "no permission for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "", "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "", "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "", "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "", "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "R", "there is no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, "R", "the fetch session epoch is not the expected one"
    LISTENER_NOT_FOUND = 72, "RM", "the leader has no endpoint for this listener"
    TOPIC_DELETION_DISABLED = 73, "", "topic deletion is disabled"
    FENCED_LEADER_EPOCH = 74, "RM", "the request's leader epoch is older than the broker's"
    UNKNOWN_LEADER_EPOCH = 75, "R", "the request's leader epoch is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, "", "the compression codec cannot be used with this request version"
    STALE_BROKER_EPOCH = 77, "", "the broker has registered anew since"
    OFFSET_NOT_AVAILABLE = 78, "R", "the high watermark of a new leader is not known yet"
    MEMBER_ID_REQUIRED = 79, "", "join again with the member id in this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "RM", "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, "", "the group is full"
    FENCED_INSTANCE_ID = 82, "", "another member has taken over this group instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "RM", "no eligible leader is available"
    ELECTION_NOT_NEEDED = 84, "RM", "Leader election not needed for topic partition."
    NO_REASSIGNMENT_IN_PROGRESS = 85, "", "No partition reassignment is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "", "the group is subscribed to the topic"
    INVALID_RECORD = 87, "", "a record was refused"
    UNSTABLE_OFFSET_COMMIT = 88, "R", "an open transaction may still change the offset"
    THROTTLING_QUOTA_EXCEEDED = 89, "R", "the quota is used up: try again later"
    PRODUCER_FENCED = 90, "", "a newer instance of the producer has taken over"
    RESOURCE_NOT_FOUND = 91, "", "there is no such resource"
    DUPLICATE_RESOURCE = 92, "", "the resource is named more than once"
    UNACCEPTABLE_CREDENTIAL = 93, "", "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, "", "the voter sets of sender and receiver differ"
    INVALID_UPDATE_VERSION = 95, "", "the update carries an outdated version"
    FEATURE_UPDATE_FAILED = 96, "", "the feature could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "", "the principal in the forwarded request cannot be read"
    SNAPSHOT_NOT_FOUND = 98, "", "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "", "the position is outside of the snapshot"
    UNKNOWN_TOPIC_ID = 100, "RM", "this broker knows no topic with this id"
    DUPLICATE_BROKER_REGISTRATION = 101, "", "another broker with this id is registered"
    BROKER_ID_NOT_REGISTERED = 102, "", "no broker with this id is registered"
    INCONSISTENT_TOPIC_ID = 103, "RM", "the topic id differs from the log's"
    INCONSISTENT_CLUSTER_ID = 104, "", "the cluster id is not that of this cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "", "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "R", "the fetch session mixes topic names and topic ids"
    INELIGIBLE_REPLICA = 107, "", "a proposed replica may not be in sync"
    NEW_LEADER_ELECTED = 108, "", "the change completed an election: there is a new leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "", "the offset has moved to tiered storage"
    FENCED_MEMBER_EPOCH = 110, "", "the member epoch was fenced: join again"
    UNRELEASED_INSTANCE_ID = 111, "", "the group instance id is still in use"
    UNSUPPORTED_ASSIGNOR = 112, "", "the assignor is not supported"
    STALE_MEMBER_EPOCH = 113, "", "the member epoch is out of date"
    MISMATCHED_ENDPOINT_TYPE = 114, "", "the endpoint is of another type than the request needs"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "", "the endpoint type is not supported here"
    UNKNOWN_CONTROLLER_ID = 116, "", "the controller id is unknown"
    UNKNOWN_SUBSCRIPTION_ID = 117, "", "the telemetry subscription is out of date"
    TELEMETRY_TOO_LARGE = 118, "", "the telemetry payload is too large"
    INVALID_REGISTRATION = 119, "", "the registration is not valid"
    TRANSACTION_ABORTABLE = 120, "", "the transaction must be aborted, after which the producer may go on"
    INVALID_RECORD_STATE = 121, "", "the record is in a state that does not allow this"
    SHARE_SESSION_NOT_FOUND = 122, "R", "there is no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, "R", "the share session epoch is not the expected one"
    FENCED_STATE_EPOCH = 124, "", "the state epoch was fenced"
    INVALID_VOTER_KEY = 125, "", "the voter key does not match"
    DUPLICATE_VOTER = 126, "", "the voter is in the set already"
    VOTER_NOT_FOUND = 127, "", "there is no such voter"
    INVALID_REGULAR_EXPRESSION = 128, "", "the regular expression is not valid"

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The member for a code off the wire; UNKNOWN_SERVER_ERROR for one that is newer than this table."""
        try:
            return cls(code)  # type: ignore[call-arg]
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR


class ApiError(Exception):
    """Raised anywhere to have a request, or a part of one, answered with `code`.

    `message` goes into the answer where the API has a place for one; None leaves it null.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.message)
        self.code = code
        self.message = message

    def __repr__(self) -> str:
        return f"ApiError({self.code.name}, {self.message!r})"


class ProtocolError(Exception):
    """Bytes that are no valid message, or a message that has no encoding in the version asked for."""


def error_of(error: BaseException) -> tuple[ErrorCode, str | None]:
    """The wire code of an exception and the text that goes with it: an `ApiError`'s own, or what the error's attribute
    `error_name` says (the log's errors have one), else UNKNOWN_SERVER_ERROR without a text."""
    if isinstance(error, ApiError):
        return error.code, error.message
    name = getattr(error, "error_name", None)
    if isinstance(name, str) and name in ErrorCode.__members__:
        return ErrorCode[name], str(error) or None
    return ErrorCode.UNKNOWN_SERVER_ERROR, None
