"""The embedded ZooKeeper's bounds: what is answered at each, and that room that is given back can be used again."""

from __future__ import annotations

from controller.zk.embedded import codes, records
from controller.zk.embedded.acls import OPEN
from controller.zk.embedded.machine import Limits, Machine, Moment
from controller.zk.embedded.reads import MAX_ANSWER_BYTES
from controller.zk.embedded.records import Answer, Close, ConnectAnswer, Message
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.state import Connection

NOW = Moment(1_700_000_000_000, 0)


class Client:
    """A connection to a machine, and what it was sent last."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.connection = Connection()
        request = records.ConnectRequest(0, 30_000, 0, b"")
        self.first = [message for _, message in machine.connect(self.connection, request, NOW).outgoing]

    def ask(self, kind: int, request: records.Request) -> list[Message]:
        return [message for _, message in self._machine.handle(self.connection, 1, kind, request, NOW).outgoing]

    def code(self, kind: int, request: records.Request) -> int:
        (answer,) = self.ask(kind, request)
        assert isinstance(answer, Answer)
        return answer.code

    def create(self, path: str, data: bytes = b"") -> int:
        return self.code(codes.CREATE, records.Create(codes.CREATE, path, data, OPEN, 0))

    def watch(self, path: str) -> int:
        return self.code(codes.EXISTS, records.Read(path, True))


def machine(limits: Limits) -> Machine:
    return Machine(Sessions(1, b"secret"), limits)


def test_creates_beyond_the_bound_are_refused_alone_and_in_a_multi() -> None:
    client = Client(server := machine(Limits(max_nodes=7)))
    assert len(server.tree.nodes) == 5
    assert [client.create(path) for path in ("/a", "/b", "/c")] == [codes.OK, codes.OK, codes.QUOTA_EXCEEDED]
    (answer,) = client.ask(codes.MULTI, records.Multi([records.Create(codes.CREATE, "/c", b"", OPEN, 0)]))
    assert isinstance(answer, Answer)
    assert answer.body == records.MultiResult([records.Failed(codes.QUOTA_EXCEEDED)])
    assert client.code(codes.DELETE, records.Delete("/a", -1)) == codes.OK
    assert client.create("/c") == codes.OK


def test_watches_beyond_the_bound_are_refused_until_one_is_used_up() -> None:
    client = Client(machine(Limits(max_watches=2)))
    client.create("/a")
    assert [client.watch(path) for path in ("/a", "/b", "/c")] == [codes.OK, codes.NO_NODE, codes.THROTTLED]
    for kind in (codes.GET_DATA, codes.GET_CHILDREN, codes.GET_CHILDREN2):
        assert client.code(kind, records.Read("/a", True)) == codes.THROTTLED
    assert client.code(codes.ADD_WATCH, records.AddWatch("/a", True)) == codes.THROTTLED
    client.ask(codes.SET_DATA, records.SetData("/a", b"", -1))
    assert client.watch("/c") == codes.NO_NODE
    assert client.watch("/d") == codes.THROTTLED


def test_a_client_that_can_not_have_its_watches_back_is_cut_off() -> None:
    server = machine(Limits(max_watches=3))
    client = Client(server)
    assert client.ask(codes.SET_WATCHES, records.SetWatches(0, ["/a", "/b"], ["/c"], ["/d"], [], [])) == [Close()]
    other = Client(server)
    assert isinstance(other.ask(codes.SET_WATCHES, records.SetWatches(0, [], ["/c"], [], ["/d"], []))[-1], Answer)
    assert server.watch_count == 3


def test_a_connection_that_goes_gives_its_watches_back() -> None:
    server = machine(Limits(max_watches=2))
    first, second = Client(server), Client(server)
    assert [first.watch("/a"), first.watch("/b"), second.watch("/c")] == [codes.NO_NODE, codes.NO_NODE, codes.THROTTLED]
    server.disconnect(first.connection)
    assert server.watch_count == 0
    assert second.watch("/c") == codes.NO_NODE


def test_a_session_beyond_the_bound_is_not_opened_and_an_old_one_goes_on() -> None:
    server = machine(Limits(max_sessions=2))
    first, second = Client(server), Client(server)
    assert isinstance(first.first[0], ConnectAnswer)
    assert Client(server).first == [Close()]
    session, password = second.connection.session_id, server.sessions.password(second.connection.session_id)
    server.disconnect(second.connection)
    again = Connection()
    effects = server.connect(again, records.ConnectRequest(0, 30_000, session, password), NOW)
    assert isinstance(effects.outgoing[0][1], ConnectAnswer)
    first.ask(codes.CLOSE_SESSION, records.Nothing())
    assert isinstance(Client(server).first[0], ConnectAnswer)


def test_identities_of_a_connection_are_bounded() -> None:
    client = Client(machine(Limits(max_identities=3)))
    for user in (b"a:x", b"b:x", b"a:x"):
        assert client.code(codes.AUTH, records.Auth("digest", user)) == codes.OK
    answer, end = client.ask(codes.AUTH, records.Auth("digest", b"c:x"))
    assert isinstance(answer, Answer)
    assert answer.code == codes.AUTH_FAILED
    assert end == Close()


def test_a_small_request_gets_no_endless_answer() -> None:
    client = Client(machine(Limits()))
    size = 1 << 20
    client.create("/large", bytes(size))
    most = MAX_ANSWER_BYTES // size
    for count, code in ((most, codes.OK), (most + 1, codes.MARSHALLING_ERROR), (50_000, codes.MARSHALLING_ERROR)):
        assert (
            client.code(codes.MULTI_READ, records.MultiRead([(codes.GET_DATA, records.Read("/large"))] * count)) == code
        )


def test_equal_lists_are_kept_once_and_lists_that_were_do_not_stay() -> None:
    client = Client(server := machine(Limits()))
    for number in range(12_000):
        acl = (records.Acl(codes.ALL, "ip", f"10.0.{number // 250}.{number % 250}"), *OPEN)
        client.ask(codes.CREATE, records.Create(codes.CREATE, "/a", b"", acl, 0))
        client.ask(codes.DELETE, records.Delete("/a", -1))
    assert server.tree.shared_lists <= 10_000
