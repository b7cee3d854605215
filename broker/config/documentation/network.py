"""What the keys of listeners, sockets, threads and limits do."""

from broker.config.broker_keys import BROKER_KEYS

_ONE_INTERPRETER = (
    "Kafka's default is {kafka}; here it is {here}, since one thread runs Python at a time and more of them cost "
    "switches without running in parallel."
)


def _threads(name: str, kafka: int) -> str:
    return _ONE_INTERPRETER.format(kafka=kafka, here=BROKER_KEYS[name].default)


KEYS: dict[str, str] = {
    "listeners": "Addresses to bind, as NAME://host:port separated by commas. An empty host binds all interfaces, "
    "port 0 takes a free one. Kafka's default binds all interfaces; here it is the loopback address only.",
    "advertised.listeners": "Addresses that clients and other brokers are told, one a listener; those of listeners "
    "when it is not set.",
    "listener.security.protocol.map": "Security protocol of each listener name, as NAME:PROTOCOL pairs.",
    "inter.broker.listener.name": "Listener that brokers use among themselves; else the one named as "
    "security.inter.broker.protocol.",
    "control.plane.listener.name": "Listener for the controller's requests alone, with a queue and threads of its own.",
    "num.network.threads": "Threads that read requests from sockets and write responses, for each listener. "
    + _threads("num.network.threads", 3),
    "num.io.threads": "Threads that handle requests. " + _threads("num.io.threads", 8),
    "background.threads": "Threads for timed tasks such as retention, flushing and checkpoints.",
    "queued.max.requests": "Requests that may wait for a handler; when there are so many, nothing more is read.",
    "queued.max.request.bytes": "Bytes of requests that may wait for a handler; when there are so many, nothing more "
    "is read. -1 is no bound.",
    "request.timeout.ms": "Time a request to another broker may take, in ms.",
    "connections.max.idle.ms": "Time after which an idle connection is closed, in ms.",
    "max.connections": "Connections this broker has at a time; more wait, and on the inter-broker listener the least "
    "recently used one of another listener is closed for it. Can be set for a listener too.",
    "max.connections.per.ip": "Connections from one address at a time; more are closed at once.",
    "max.connections.per.ip.overrides": "Other bounds for some addresses, as address:count pairs.",
    "max.connection.creation.rate": "New connections a second; more have to wait. Can be set for a listener too.",
    "socket.listen.backlog.size": "Connections that the system keeps waiting to be accepted.",
    "socket.receive.buffer.bytes": "Receive buffer of a socket in bytes; -1 leaves it to the system. Kafka's default "
    "is 102400; here it is -1, and the buffer grows while a peer sends much: else a large request comes in ten pieces.",
    "socket.send.buffer.bytes": "Send buffer of a socket in bytes; -1 leaves it to the system.",
    "socket.request.max.bytes": "Largest request in bytes; a larger one closes its connection.",
    "socket.connection.setup.timeout.ms": "Time an attempt to connect to another broker may take, in ms.",
    "socket.connection.setup.timeout.max.ms": "Longest time an attempt to connect to another broker may take, reached "
    "after failures, in ms.",
    "quota.window.num": "Windows over which rates of quotas are measured.",
    "quota.window.size.seconds": "Length of a window over which rates of quotas are measured, in seconds.",
    "controller.quota.window.num": "Windows over which the rate of topic and partition changes is measured.",
    "controller.quota.window.size.seconds": "Length of a window over which the rate of topic changes is measured, in "
    "seconds.",
    "client.quota.callback.class": "Class of Python that decides on quotas of clients, as package.module:Class.",
    "fetch.max.bytes": "Most bytes in the answer to a fetch, unless its first batch is larger.",
    "max.incremental.fetch.session.cache.slots": "Fetch sessions that are kept; with more, older ones are evicted.",
    "fetch.purgatory.purge.interval.requests": "Completed fetches that may lie in the purgatory's watch lists before "
    "they are cleared out.",
    "producer.purgatory.purge.interval.requests": "Completed produce requests that may lie in the purgatory's watch "
    "lists before they are cleared out.",
    "delete.records.purgatory.purge.interval.requests": "Completed delete-records requests that may lie in the "
    "purgatory's watch lists before they are cleared out.",
}
