"""What `KAFKA_OPTS` says to Java, and the JAAS file that it names."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from network.sasl.jaas import JaasError, LoginModule, parse_file

_FILE = "java.security.auth.login.config"


def java_property(environment: Mapping[str, str], name: str) -> str | None:
    """The value of a `-Dname=value` among `KAFKA_OPTS`. Raises `JaasError` for what no shell could read."""
    try:
        words = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError:
        raise JaasError("KAFKA_OPTS has a quote that is not closed") from None
    option = f"-D{name}="
    found = [word.removeprefix(option) for word in words if word.startswith(option)]
    return found[-1] if found else None


class JaasFile:
    """The file that `KAFKA_OPTS` names; one without contexts if it names none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises `JaasError`, without values of options."""
        self.path = java_property(environment, _FILE)
        self._contexts: Mapping[str, list[LoginModule]] = {}
        if self.path is None:
            return
        try:
            self._contexts = parse_file(Path(self.path).read_text(encoding="utf-8"))
        except (JaasError, OSError, UnicodeDecodeError) as error:
            raise JaasError(f"the JAAS file {self.path} cannot be read: {error}") from None

    def context(self, *names: str) -> tuple[str, list[LoginModule]] | None:
        """The first context of these names that is there, with what to call it in an error; else None."""
        for name in names:
            if name in self._contexts:
                return f"{name} of {self.path}", self._contexts[name]
        return None

    def need(self, *names: str) -> tuple[str, list[LoginModule]]:
        """As `context`; raises `JaasError` in Kafka's words if none is there."""
        found = self.context(*names)
        if found is None:
            wanted = " or ".join(f"'{name}'" for name in reversed(names))
            raise JaasError(
                f"Could not find a {wanted} entry in the JAAS configuration. System property '{_FILE}' is "
                f"{'not set' if self.path is None else self.path}"
            )
        return found
