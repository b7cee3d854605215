"""The client of a registry: login, TLS, references, what is remembered, and a registry that fails."""

from __future__ import annotations

import base64
import json
import pickle
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.schemas import registry as registry_module
from spark_jobs.schemas.registry import AVRO, PROTOBUF, HttpRegistry, RegistryError, UnknownSchemaError, open_registry
from tests.support.certificates import Authority

LOGIN = "Basic " + base64.b64encode(b"me:secret").decode()


class Answers:
    """What the server says by path, how often it was asked, and how often it fails before that."""

    def __init__(self) -> None:
        self.by_path: dict[str, Any] = {}
        self.asked: Counter[str] = Counter()
        self.failures = 0
        self.login: str | None = None


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def server(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.asked[self.path] += 1
            found = answers.by_path.get(self.path)
            status = 404 if found is None else 200
            if answers.failures:
                answers.failures -= 1
                status = 500
            if answers.login not in (None, self.headers["Authorization"]):
                status = 401
            body = json.dumps(found if status == 200 else {"error_code": status}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    monkeypatch.setattr(registry_module, "_BACKOFF_MS", 1)
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(10)


def url(server: ThreadingHTTPServer, scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{server.server_address[1]}"


def test_login_and_tls(answers: Answers, server: ThreadingHTTPServer, tmp_path: Path) -> None:
    authority = Authority()
    identity = authority.issue("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.pem_file(tmp_path / "server.pem"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    answers.login = LOGIN
    answers.by_path["/schemas/ids/1"] = {"schema": '"int"'}
    trusted = str(authority.pem_file(tmp_path / "ca.pem"))
    found = open_registry(url(server, "https"), user="me", password="secret", ca=trusted)
    travelled = pickle.loads(pickle.dumps(found))
    assert travelled.by_id(1) == (1, AVRO, '"int"', ())
    assert "secret" not in repr(found)
    with pytest.raises(RegistryError, match="answers 401"):
        open_registry(f"{url(server, 'https')}/", user="me", password="wrong", ca=trusted).by_id(1)
    with pytest.raises(RegistryError, match="CERTIFICATE_VERIFY_FAILED"):
        HttpRegistry(url(server, "https") + "/untrusted", "me", "secret").by_id(1)
    with pytest.raises(RegistryError, match="No such file"):
        open_registry("https://h", ca=str(tmp_path / "not there"))


def test_references_come_before_what_refers_to_them(answers: Answers, server: ThreadingHTTPServer) -> None:
    def reference(name: str) -> dict[str, Any]:
        return {"name": f"{name}.proto", "subject": f"s/{name}", "version": 3}

    answers.by_path["/schemas/ids/1"] = {
        "schema": "main",
        "schemaType": "PROTOBUF",
        "references": [reference("a"), reference("b")],
    }
    answers.by_path["/subjects/s%2Fa/versions/3"] = {"id": 2, "schema": "A", "references": [reference("b")]}
    answers.by_path["/subjects/s%2Fb/versions/3"] = {"id": 3, "schema": "B"}
    found = HttpRegistry(url(server)).by_id(1)
    assert found == (1, PROTOBUF, "main", (("b.proto", "B"), ("a.proto", "A")))


def test_what_is_remembered_is_bounded(answers: Answers, server: ThreadingHTTPServer) -> None:
    for number in range(5):
        answers.by_path[f"/schemas/ids/{number}"] = {"schema": "x"}
    client = HttpRegistry(url(server), cache_size=3)
    for number in (0, 1, 2, 0, 3, 0, 1):
        client.by_id(number)
    assert [answers.asked[f"/schemas/ids/{number}"] for number in range(4)] == [1, 2, 1, 1]


def test_a_registry_that_fails_and_the_next(answers: Answers, server: ThreadingHTTPServer) -> None:
    answers.by_path["/subjects/s/versions/latest"] = {"id": 7, "schema": "x"}
    answers.failures = 3
    assert HttpRegistry(url(server)).by_subject("s", "latest").id == 7
    answers.failures = 9
    with pytest.raises(RegistryError, match=r"does not answer subjects/s/versions/latest: HTTP Error 500"):
        HttpRegistry(url(server)).by_subject("s", "latest")
    answers.failures = 0
    assert HttpRegistry(f"http://127.0.0.1:1, {url(server)}").by_subject("s", "latest").id == 7
    with pytest.raises(UnknownSchemaError):
        HttpRegistry(url(server)).by_subject("s", "2")
    answers.by_path["/schemas/ids/1"] = ["no object"]
    with pytest.raises(RegistryError, match="no JSON object"):
        HttpRegistry(url(server)).by_id(1)
