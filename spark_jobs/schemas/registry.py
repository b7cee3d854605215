"""Where schemas come from: a registry with Confluent's HTTP interface, or a folder of files."""

from __future__ import annotations

import base64
import functools
import http.client
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from network.json_text import parse_json
from timer.clock import SystemClock

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
# The largest answer that is taken, in bytes.
MAX_ANSWER = 16 * 1024 * 1024
MAX_FOLDER_FILES = 10_000
# References that lead from one schema to others.
MAX_REFERENCES = 200
_SUFFIXES = {".avsc": AVRO, ".proto": PROTOBUF, ".json": JSON}
_SUBJECTS = "subjects.json"
_BACKOFF_MS = 200
_TRIES = 4


class RegistryError(Exception):
    """The registry can't be asked, or says something that is no answer."""


class UnknownSchemaError(RegistryError):
    """The registry knows no such schema."""


class Schema(NamedTuple):
    """A schema as it is registered, with the texts that it refers to, by the names that it has for them."""

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """In an order in which each comes after those that it refers to."""


class Registry(Protocol):
    """What decoding asks. Both raise UnknownSchemaError and RegistryError."""

    @property
    def place(self) -> str:
        """What tells it from other registries."""

    def by_id(self, number: int) -> Schema:
        """The schema with this id."""

    def by_subject(self, subject: str, version: str) -> Schema:
        """A version of a subject; `latest` or a number."""


@dataclass
class HttpRegistry:
    """A registry at a URL (or several, separated by commas, of which the first that answers is asked).

    It travels to the executors with what it needs: the certificate is the text of a PEM file. Schemas never change, so
    each process remembers what an id stands for, the last `cache_size`. Times are ms; a call is tried four times.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_pem: str | None = field(default=None, repr=False)
    timeout_ms: int = 10_000
    cache_size: int = 1000

    @property
    def place(self) -> str:
        """What tells it from other registries."""
        return self.url

    def by_id(self, number: int) -> Schema:
        """The schema with this id."""
        cache = _known(self.url)
        known = cache.get(number)
        if known is None:
            known = self._schema(number, self._get(f"schemas/ids/{number}"))
            cache[number] = known
            while len(cache) > self.cache_size:
                cache.popitem(last=False)
        else:
            cache.move_to_end(number)
        return known

    def by_subject(self, subject: str, version: str) -> Schema:
        """A version of a subject, asked anew each time."""
        answer = self._version(subject, version)
        return self._schema(int(answer["id"]), answer)

    def _version(self, subject: str, version: str) -> dict[str, Any]:
        return self._get(f"subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}")

    def _schema(self, number: int, answer: Mapping[str, Any]) -> Schema:
        found: dict[str, str] = {}
        self._follow(answer, found)
        return Schema(number, answer.get("schemaType") or AVRO, answer["schema"], tuple(found.items()))

    def _follow(self, answer: Mapping[str, Any], found: dict[str, str]) -> None:
        for each in answer.get("references") or ():
            if each["name"] in found:
                continue
            if len(found) >= MAX_REFERENCES:
                raise RegistryError(f"more than {MAX_REFERENCES} references")
            referred = self._version(each["subject"], str(each["version"]))
            self._follow(referred, found)
            found[each["name"]] = referred["schema"]

    def _get(self, path: str) -> dict[str, Any]:
        failure: Exception | None = None
        for attempt in range(_TRIES):
            for base in self.url.split(","):
                try:
                    return self._ask(f"{base.strip().rstrip('/')}/{path}")
                except urllib.error.HTTPError as error:
                    said = error.read(1000).decode(errors="replace")
                    if error.code == 404:
                        raise UnknownSchemaError(f"the registry has no {path}: {said}") from None
                    if error.code < 500 and error.code != 429:
                        raise RegistryError(f"the registry answers {error.code} to {path}: {said}") from None
                    failure = error
                except (OSError, ValueError, http.client.HTTPException) as error:
                    failure = error
            if attempt + 1 < _TRIES:
                _pause(_BACKOFF_MS << attempt)
        raise RegistryError(f"the registry at {self.url} does not answer {path}: {failure}")

    def _ask(self, url: str) -> dict[str, Any]:
        request = urllib.request.Request(url, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
        if self.user is not None:
            login = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        context = None
        if url.startswith("https:"):
            context = ssl.create_default_context(cadata=self.ca_pem)
        with urllib.request.urlopen(request, timeout=self.timeout_ms / 1000, context=context) as answer:
            found = parse_json(answer.read(MAX_ANSWER))
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        return found


@functools.lru_cache(maxsize=16)
def _known(url: str) -> OrderedDict[int, Schema]:
    """Schemas of a registry that this process has seen, the last used last. Python workers live longer than a task."""
    return OrderedDict()


def _pause(duration_ms: int) -> None:
    condition = threading.Condition()
    with condition:
        SystemClock().wait(condition, duration_ms)


@dataclass
class FolderRegistry:
    """Schemas of a folder, read once by the driver: files ``ID.avsc``, ``ID.proto`` and ``ID.json``, and in
    ``subjects.json`` for each subject the ids of its versions: ``{"clicks-value": [1, 7]}``."""

    schemas: dict[int, Schema]
    subjects: dict[str, list[int]]
    place: str

    @classmethod
    def read(cls, path: str) -> FolderRegistry:
        """All that is in a folder. Raises RegistryError."""
        schemas: dict[int, Schema] = {}
        subjects: dict[str, list[int]] = {}
        try:
            files = sorted(Path(path).iterdir())
            if len(files) > MAX_FOLDER_FILES:
                raise RegistryError(f"{path} has {len(files)} files, more than {MAX_FOLDER_FILES}")
            protos = tuple((each.name, each.read_text()) for each in files if each.suffix == ".proto")
            for each in files:
                if each.name == _SUBJECTS:
                    subjects = parse_json(each.read_text())
                elif each.suffix in _SUFFIXES and each.stem.isdigit():
                    kind = _SUFFIXES[each.suffix]
                    others = tuple(other for other in protos if other[0] != each.name) if kind == PROTOBUF else ()
                    schemas[int(each.stem)] = Schema(int(each.stem), kind, each.read_text(), others)
        except (OSError, ValueError) as error:
            raise RegistryError(f"{path} is no folder of schemas: {error}") from None
        return cls(schemas, subjects, str(Path(path).resolve()))

    def by_id(self, number: int) -> Schema:
        """The schema with this id."""
        if number not in self.schemas:
            raise UnknownSchemaError(f"the folder has no schema {number}")
        return self.schemas[number]

    def by_subject(self, subject: str, version: str) -> Schema:
        """A version of a subject."""
        ids = self.subjects.get(subject, [])
        index = len(ids) if version == "latest" else int(version)
        if not 1 <= index <= len(ids):
            raise UnknownSchemaError(f"{_SUBJECTS} has no version {version} of {subject}")
        return self.by_id(ids[index - 1])


def open_registry(
    place: str,
    *,
    user: str | None = None,
    password: str | None = None,
    ca: str | None = None,
    timeout_ms: int = 10_000,
    cache_size: int = 1000,
) -> Registry:
    """The registry at a URL, or the schemas of a folder. `ca` is a PEM file. Raises RegistryError."""
    if not place.startswith(("http://", "https://")):
        return FolderRegistry.read(place)
    try:
        pem = None if ca is None else Path(ca).read_text()
    except OSError as error:
        raise RegistryError(f"ca {ca}: {error.strerror}") from None
    return HttpRegistry(place, user, password, pem, timeout_ms, cache_size)
