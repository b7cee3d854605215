"""Under an authorizer: nothing without a login, and then what that user may see and do."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from broker.dev.processes import free_ports
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.console.test_views import rows
from tests.console.visit import Visit
from tests.support import wire
from tests.support.cluster import HOST, Cluster
from tests.support.sasl import USERS, sasl_settings

TOPIC, GROUP, CLUSTER = 2, 3, 4
DESCRIBE, READ, ANY_HOST, ALLOW, LITERAL = 8, 3, "*", 3, 3


@pytest.fixture(scope="module")
def guarded(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker with a plain listener for itself, which the console must not use, and one to log in on."""
    port, sasl_port, http_port = free_ports(3)
    settings = sasl_settings(
        port,
        sasl_port,
        **{
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "odradek.http.port": str(http_port),
            "odradek.console.write": "true",
            "offsets.topic.num.partitions": "1",
        },
    )
    directory = tmp_path_factory.mktemp("guarded")
    cluster = Cluster(["odradek"], directory, f"{zookeeper}/console-login", settings)
    (broker,) = cluster.brokers
    broker.port, broker.address = port, f"{HOST}:{port}"
    try:
        cluster.start()
        for name in ("seen", "hidden"):
            wire.create_topic(cluster, name)
        creations = [
            AclCreation(
                resource_type=TOPIC,
                resource_name="seen",
                resource_pattern_type=LITERAL,
                principal="User:alice",
                host=ANY_HOST,
                operation=READ,
                permission_type=ALLOW,
            )
        ]
        results = wire.call(broker, CreateAclsRequest(creations=creations), 3).results
        assert [result.error_code for result in results] == [0]
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def guarded_visit(browser: Browser, guarded: Cluster) -> Iterator[Visit]:
    console = f"http://{HOST}:{guarded.brokers[0].settings['odradek.http.port']}/console/"
    with Visit.of(browser, console) as visit:
        yield visit


def log_in(visit: Visit, name: str, password: str) -> Page:
    page = visit.page
    page.goto(f"{visit.console}#/topics")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    return page


def test_nothing_is_told_without_a_login(guarded: Cluster) -> None:
    connection = http.client.HTTPConnection(HOST, int(guarded.brokers[0].settings["odradek.http.port"]), timeout=30)
    for question in ("overview", "topics", "partitions", "sizes", "groups", "transactions", "internals", "broker?id=0"):
        connection.request("GET", f"/console/api/{question}")
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]) == (401, "login"), question
    for question in ("records", "create-topic"):
        connection.request("POST", f"/console/api/{question}", json.dumps({"topic": "seen"}))
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]) == (401, "login"), question
    connection.request("GET", "/console/api/session")
    assert json.loads(connection.getresponse().read()) == {"needs_login": True, "user": None, "in": False}
    connection.close()


def test_a_wrong_password_is_told_and_the_right_one_lets_in(guarded_visit: Visit) -> None:
    page = log_in(guarded_visit, "alice", "wrong")
    expect(page.get_by_text("Name or password is not right.")).to_be_visible()
    expect(page.get_by_label("Password")).to_have_value("")
    page.get_by_label("Password").fill(USERS["alice"])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector('body[data-shown="/topics"]', state="attached")


def test_a_user_sees_only_what_he_may(guarded_visit: Visit) -> None:
    page = log_in(guarded_visit, "alice", USERS["alice"])
    page.wait_for_selector('body[data-shown="/topics"]', state="attached")
    assert [row[0] for row in rows(page, "Topics")] == ["seen"]
    guarded_visit.page.goto(f"{guarded_visit.console}#/topics/hidden")
    expect(page.get_by_text("You may not see this topic.")).to_be_visible()
    guarded_visit.open("/records?topic=hidden")
    expect(page.get_by_text("Nothing to show")).to_be_visible()
    guarded_visit.open("/internals")
    expect(page.get_by_text("they need Describe on the cluster")).to_be_visible()
    expect(page.get_by_text("alice")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_a_user_changes_only_what_he_may(guarded_visit: Visit) -> None:
    page = log_in(guarded_visit, "alice", USERS["alice"])
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("not-mine")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_text("TOPIC_AUTHORIZATION_FAILED")).to_be_visible()


def test_who_may_everything_sees_everything(guarded_visit: Visit) -> None:
    page = log_in(guarded_visit, "admin", "admin-secret")
    page.wait_for_selector('body[data-shown="/topics"]', state="attached")
    assert {row[0] for row in rows(page, "Topics")} >= {"seen", "hidden"}
    guarded_visit.open("/internals")
    page.wait_for_selector("body[data-sample]", state="attached")
    cookie = next(each for each in page.context.cookies() if each["name"].startswith("odradek-console"))
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert cookie["path"] == "/console"
    assert page.evaluate("() => document.cookie") == ""
