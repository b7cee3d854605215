"""Who gets through the console's door."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.http.console.access import Doorkeeper, Problem, check_post, host_name, is_loopback
from broker.http.messages import HttpRequest


def request(peer: str = "127.0.0.1", method: str = "GET", **headers: str) -> HttpRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest("/console/", {}, {"host": "localhost:8080", **named}, method, peer=peer)


class TestDoorkeeper:
    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "localhost:8080",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "10.1.2.3",
            "kafka.example:1",
        ],
    )
    def test_our_own_names_and_addresses_are_let_in(self, host: str) -> None:
        Doorkeeper("loopback", ["kafka.example"]).check(request(host=host))

    @pytest.mark.parametrize(
        "host",
        ["", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:80x",
         "[::1", "[::1]x", "127.0.0.1:8080:9", "::1", "kafka.example"],
    )  # fmt: skip
    def test_a_name_that_somebody_points_here_is_not(self, host: str) -> None:
        with pytest.raises(Problem) as refused:
            Doorkeeper("any", []).check(request(host=host))
        assert (refused.value.status, refused.value.code) == (421, "host")

    @pytest.mark.parametrize("peer", ["10.0.0.1", "192.168.1.5", "::ffff:10.0.0.1", "2001:db8::1", ""])
    def test_others_than_this_machine_only_where_that_is_said(self, peer: str) -> None:
        with pytest.raises(Problem) as refused:
            Doorkeeper("loopback", []).check(request(peer))
        assert (refused.value.status, refused.value.code) == (403, "remote")
        Doorkeeper("any", []).check(request(peer))

    @pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
    def test_this_machine_by_all_its_addresses(self, peer: str) -> None:
        assert is_loopback(peer)

    @given(st.text(max_size=40))
    def test_a_host_that_is_let_in_is_known_or_an_address(self, host: str) -> None:
        if Doorkeeper("any", ["kafka.example"]).knows(host):
            name = host_name(host)
            assert name is not None
            assert name in ("localhost", "kafka.example") or set(name) <= set("0123456789abcdef.:%")


class TestPosts:
    def test_our_own_page_passes(self) -> None:
        check_post(request(method="POST", x_odradek_token="secret"), "secret")
        headers = {"origin": "http://localhost:8080", "sec_fetch_site": "same-origin", "x_odradek_token": "secret"}
        check_post(request(method="POST", **headers), "secret")

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"x_odradek_token": ""},
            {"x_odradek_token": "other"},
            {"x_odradek_token": "sécret"},
            {"x_odradek_token": "secret", "origin": "http://evil.example"},
            {"x_odradek_token": "secret", "origin": "null"},
            {"x_odradek_token": "secret", "origin": "http://localhost:8081"},
            {"x_odradek_token": "secret", "sec_fetch_site": "cross-site"},
            {"x_odradek_token": "secret", "sec_fetch_site": "same-site"},
        ],
    )
    def test_others_do_not(self, headers: dict[str, str]) -> None:
        with pytest.raises(Problem) as refused:
            check_post(request(method="POST", **headers), "secret")
        assert refused.value.status == 403
