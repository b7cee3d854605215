"""The console as the HTTP server knows it: one handler for every path under `/console`."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from broker.cli.errors import CommandError
from broker.http.console.access import SAFE_HEADERS, Doorkeeper, Problem, check_post
from broker.http.console.api import brokers, groups, topics, transactions
from broker.http.console.api.question import Question
from broker.http.console.sessions import Failures, Session, Sessions, cookie_name, cookie_of, set_cookie
from broker.http.console.static_files import StaticFiles
from broker.http.messages import JSON, HttpRequest, HttpResponse, text_response
from network.client.connection import AuthenticationFailed, ConnectionFailed
from network.client.connection_pool import UnsupportedVersion
from network.protocol.errors import ApiError, ErrorCode, ProtocolError

if TYPE_CHECKING:
    from broker.http.console.calls import Calls
    from broker.http.console.clients import Clients
    from network.client.cluster_client import ClusterClient
    from timer.chance import Chance
    from timer.clock import Clock

logger = logging.getLogger(__name__)

ROOT = "/console"
_API = "/console/api/"

Reader = Callable[["ClusterClient", Question], Any]
"""Runs aside from the event loop, may block, and returns what becomes JSON."""
Facts = Callable[[], dict[str, Any]]

READERS: dict[str, Reader] = {
    "overview": brokers.overview,
    "broker": brokers.broker,
    "topics": topics.topics,
    "topic": topics.topic,
    "partitions": topics.partitions,
    "sizes": topics.sizes,
    "groups": groups.groups,
    "group": groups.group,
    "lags": groups.lags,
    "transactions": transactions.transactions,
    "transaction": transactions.transaction,
}
"""What is asked with GET."""


class Console:
    """Doors, sessions and the table of questions. Its methods run on the HTTP server's event loop."""

    def __init__(
        self,
        doorkeeper: Doorkeeper,
        clients: Clients,
        calls: Calls,
        clock: Clock,
        chance: Chance,
        facts: Facts,
        posts: Mapping[str, Reader],
    ) -> None:
        """`facts` tells of this broker what everybody may know; `posts` are questions that come with a body, and
        changes."""
        self._doorkeeper = doorkeeper
        self._clients = clients
        self._calls = calls
        self._clock = clock
        self._facts = facts
        self._posts = posts
        self._static: StaticFiles | None = None
        self._sessions = Sessions(clock, chance, lambda client: calls.submit(client.close))
        self._failures = Failures(clock)
        self._shared: Session | None = None
        self._specials: dict[str, Callable[[HttpRequest], Awaitable[HttpResponse]]] = {
            "session": self._session,
            "login": self._login,
            "logout": self._logout,
        }

    def add(self, name: str, handler: Callable[[HttpRequest], Awaitable[HttpResponse]]) -> None:
        """Answer `GET /console/api/NAME` with a handler that looks after sessions itself, by `session_of`."""
        self._specials[name] = handler

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Any path that is no route of the server."""
        if request.path != ROOT and not request.path.startswith(f"{ROOT}/"):
            return text_response(HTTPStatus.NOT_FOUND, "nothing is served at this path; the console is at /console/")
        try:
            self._doorkeeper.check(request)
            if request.path.startswith(_API):
                return await self._answer(request, request.path.removeprefix(_API))
            return self._page(request)
        except Problem as problem:
            return _json(problem.status, {"error": problem.code, "text": problem.text})

    def close(self) -> None:
        """Close the clients of all sessions."""
        self._sessions.close()
        if self._shared is not None:
            self._shared.client.close()
        self._calls.close()

    def session_of(self, request: HttpRequest) -> Session:
        """Whose request it is. Raises `Problem` for nobody's."""
        if not self._clients.needs_login:
            if self._shared is None:
                now = self._clock.monotonic_ms()
                token = self._sessions.random_text()
                self._shared = Session(None, self._clients.anonymous(), token, now, now)
            return self._shared
        session = self._sessions.find(_session_id(request))
        if session is None:
            raise Problem(HTTPStatus.UNAUTHORIZED, "login", "Log in to see the cluster.")
        return session

    async def ask(self, session: Session, reader: Reader, question: Question) -> bytes:
        """JSON of what a reader says. Raises `Problem` for what goes wrong on the way."""

        def call() -> bytes:
            return json.dumps(reader(session.client, question), separators=(",", ":")).encode()

        try:
            return await self._calls.run(call)
        except AuthenticationFailed:
            text = "Your name or password is not accepted any more: log in again."
            raise Problem(HTTPStatus.UNAUTHORIZED, "login", text) from None
        except (ConnectionFailed, OSError) as error:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", str(error)) from None
        except CommandError as error:
            raise Problem(HTTPStatus.CONFLICT, "refused", str(error)) from None
        except ApiError as error:
            status = HTTPStatus.FORBIDDEN if error.code in _FORBIDDEN else HTTPStatus.CONFLICT
            raise Problem(status, error.code.name, error.message or error.code.message) from None
        except (UnsupportedVersion, ProtocolError) as error:
            raise Problem(HTTPStatus.BAD_GATEWAY, "protocol", str(error)) from None

    def _page(self, request: HttpRequest) -> HttpResponse:
        if request.path == ROOT:
            moved = {**SAFE_HEADERS, "location": f"{ROOT}/"}
            return HttpResponse(HTTPStatus.MOVED_PERMANENTLY, JSON, b"", moved)
        self._static = self._static or StaticFiles()
        found = self._static.answer(request, request.path.removeprefix(f"{ROOT}/"))
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "path", "There is no such file.")
        return found

    async def _answer(self, request: HttpRequest, name: str) -> HttpResponse:
        special = self._specials.get(name)
        if special is not None:
            return await special(request)
        if (reader := READERS.get(name)) is not None:
            session, question = self.session_of(request), Question(request.query)
        elif (reader := self._posts.get(name)) is not None:
            if request.method != "POST":
                raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, "method", "This is asked with POST.")
            session, question = self.session_of(request), Question.of_body(request.body)
            check_post(request, session.token)
        else:
            raise Problem(HTTPStatus.NOT_FOUND, "path", "There is no such question.")
        return HttpResponse(HTTPStatus.OK, JSON, await self.ask(session, reader, question), SAFE_HEADERS)

    async def _session(self, request: HttpRequest) -> HttpResponse:
        """Who is there, and the token of changes: for our own page, as no other can read an answer from here."""
        facts: dict[str, Any] = {"needs_login": self._clients.needs_login, "user": None}
        try:
            session = self.session_of(request)
        except Problem as problem:
            if problem.code != "login":
                raise
            return _json(HTTPStatus.OK, {**facts, "in": False})
        return _json(
            HTTPStatus.OK, {**facts, "in": True, "user": session.user, "token": session.token, **self._facts()}
        )

    async def _login(self, request: HttpRequest) -> HttpResponse:
        """A name and a password are tried on the cluster itself. The page sends them as JSON, which no form can."""
        check_post(request, "")
        if request.method != "POST" or not request.headers.get("content-type", "").startswith("application/json"):
            raise Problem(HTTPStatus.BAD_REQUEST, "method", "A login is sent as JSON.")
        if not self._clients.needs_login:
            raise Problem(HTTPStatus.BAD_REQUEST, "login", "There is nothing to log in to here.")
        if self._failures.too_many(request.peer):
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "failures", "Too many logins have failed: wait a minute.")
        question = Question.of_body(request.body)
        user, password = question.text("user"), question.text("password")
        client = await self._logged_in(self._clients.of_user(user, password))
        if client is None:
            self._failures.note(request.peer)
            logger.info("a login to the console from %s has failed", request.peer)
            raise Problem(HTTPStatus.UNAUTHORIZED, "credentials", "Name or password is not right.")
        self._sessions.end(_session_id(request))
        cookie = set_cookie(_cookie_name(request), self._sessions.open(user, client))
        return _json(HTTPStatus.OK, {"in": True}, {"set-cookie": cookie})

    async def _logged_in(self, candidates: list[ClusterClient]) -> ClusterClient | None:
        """The first that is let in; the others are closed."""
        found: ClusterClient | None = None
        try:
            for client in candidates:
                with contextlib.suppress(AuthenticationFailed):
                    await self._calls.run(partial(client.metadata, []))
                    found = client
                    return client
        except (ConnectionFailed, OSError, ApiError) as error:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", str(error)) from None
        finally:
            for client in candidates:
                if client is not found:
                    self._calls.submit(client.close)
        return None

    async def _logout(self, request: HttpRequest) -> HttpResponse:
        check_post(request, self.session_of(request).token)
        self._sessions.end(_session_id(request))
        return _json(HTTPStatus.OK, {"in": False}, {"set-cookie": set_cookie(_cookie_name(request), "")})


_FORBIDDEN = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def _cookie_name(request: HttpRequest) -> str:
    return cookie_name(request.headers.get("host", ""))


def _session_id(request: HttpRequest) -> str:
    return cookie_of(request.headers.get("cookie", ""), _cookie_name(request))


def _json(status: HTTPStatus, value: object, headers: Mapping[str, str] | None = None) -> HttpResponse:
    content = json.dumps(value, separators=(",", ":")).encode()
    return HttpResponse(status, JSON, content, {**SAFE_HEADERS, **(headers or {})})
