"""Whether the broker lives and whether it is ready, for orchestrators: `/health/live` and `/health/ready`.

Live: the process answers. Ready: every check that start-up has announced passes; until all are announced it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from broker.http.messages import HttpRequest, HttpResponse, json_response

# Returns what is wrong, or None.
Check = Callable[[], str | None]

CHECKS = ("broker state", "ZooKeeper", "registration", "metadata", "log directories", "background threads")


class Health:
    """The checks of one broker, by name."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Announce one of `CHECKS`; it is called from the HTTP thread and must not block. Raises `ValueError`."""
        if name not in CHECKS:
            raise ValueError(f"{name!r} is not a check of a broker's health")
        self._checks[name] = check

    def problems(self) -> dict[str, str | None]:
        """What is wrong, by check; None where all is well."""
        return {name: self._problem(name) for name in CHECKS}

    async def live(self, _request: HttpRequest) -> HttpResponse:
        return json_response(HTTPStatus.OK, {"status": "live"})

    async def ready(self, _request: HttpRequest) -> HttpResponse:
        problems = self.problems()
        is_ready = not any(problems.values())
        return json_response(
            HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE,
            {
                "status": "ready" if is_ready else "not ready",
                "checks": {name: problem or "ok" for name, problem in problems.items()},
            },
        )

    def _problem(self, name: str) -> str | None:
        check = self._checks.get(name)
        if check is None:
            return "not started yet"
        try:
            return check()
        except Exception as error:
            return f"cannot be told: {error}"
