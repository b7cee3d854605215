"""An identity provider for tests: a token endpoint with client credentials, and the JWKS of its tokens."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.cluster import CLOCK, HOST

ISSUER, AUDIENCE = "https://issuer", "kafka"


class TokenServer:
    """Serves until it is closed. `secrets` are those of the clients, `lifetime_s` of the tokens that it gives next."""

    def __init__(self, secrets: dict[str, str], context: ssl.SSLContext | None = None, lifetime_s: int = 3600) -> None:
        self.secrets = secrets
        self.lifetime_s = lifetime_s
        self.authority_file: Path | None = None
        """Where the one stands that a client must trust, if it is told."""
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Who asked, and the fields of the form."""
        self.scripted: list[Callable[[BaseHTTPRequestHandler], None]] = []
        """Answers of the next requests, in place of the right ones."""
        self._key = rsa.generate_private_key(65537, 2048)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: what a test wants to know is in `asked`."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://{HOST}:{self._server.server_address[1]}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def write_jwks(self, file: Path) -> Path:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        file.write_text(json.dumps({"keys": [{**key, "kid": "one", "use": "sig"}]}))
        return file

    def token(self, subject: str, **claims: Any) -> str:
        now = CLOCK.wall_ms() // 1000
        all_claims = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + self.lifetime_s}
        return jwt.encode({**all_claims, **claims}, self._key, "RS256", {"kid": "one"})

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
        user, _, secret = (
            base64.b64decode(handler.headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
        )
        self.asked.append((user, {name: values[0] for name, values in parse_qs(body).items()}))
        if self.scripted:
            self.scripted.pop(0)(handler)
        elif self.secrets.get(user) != secret:
            reply(handler, 401, {"error": "invalid_client", "error_description": f"not {secret}"})
        else:
            reply(handler, 200, {"access_token": self.token(user), "token_type": "Bearer"})


def reply(handler: BaseHTTPRequestHandler, status: int, content: object) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)
