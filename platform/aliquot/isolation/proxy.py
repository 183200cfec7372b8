"""The only way out of a contained worker: a proxy of ours that connects to allowed hosts, and to nothing else.

A worker has no route at all. What asks its loopback for a web page (`HTTPS_PROXY`) is carried over a Unix socket to the
supervisor, which reads the host's name, compares it with the allow-list, resolves it, and refuses every address that is
not a public one, unless the operator named its network. It connects to the very address that it checked, so a name that
changes its mind gains nothing. A redirect is just another request, and is checked like the first.

What passes through is not read: an allowed host that shares its servers with others, or that anybody may write to, is a
way for data to leave. Allow what you would hand the campaign's designs to.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import selectors
import socket
import tempfile
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from aliquot.isolation.settings import Network

PORT = 3128
"""Where the worker's side listens, on its own loopback."""
DEFAULT_PORTS = (80, 443)
HEAD_BYTES = 64 * 1024
CONNECTIONS = 16
"""At once, for one worker."""
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 60.0
CHUNK = 64 * 1024


class Refused(Exception):
    """A request that is not carried; the text is told to the worker."""


class Proxy:
    """Serves one worker, from a thread of its own. A context manager.

    Args:
        allowed: `host`, for ports 80 and 443, or `host:port`.
        private: networks that are not public, and may be reached all the same.
    """

    def __init__(self, allowed: tuple[str, ...], private: tuple[Network, ...] = ()):
        self._allowed = {pair for entry in allowed for pair in _pairs(entry)}
        self._private = private
        self._folder = tempfile.TemporaryDirectory(prefix="aliquot-proxy-", ignore_cleanup_errors=True)
        self.path = os.path.join(self._folder.name, "socket")
        """The Unix socket, in a folder that only we can enter."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        os.chmod(self.path, 0o666)  # the worker is another user; only its own view shows it the socket
        self._listener.listen(CONNECTIONS)
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        threading.Thread(target=self._serve, daemon=True, name="aliquot proxy").start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._listener.close()
        self._folder.cleanup()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._free.acquire(blocking=False):
                client.close()
                continue
            threading.Thread(target=self._answer, args=(client,), daemon=True, name="aliquot proxy").start()

    def _answer(self, client: socket.socket) -> None:
        try:
            with client, contextlib.suppress(OSError):
                client.settimeout(CONNECT_SECONDS)
                try:
                    upstream, first, greeting = self._open(*_read_head(client))
                except Refused as refusal:
                    text = f"{refusal}\n".encode()
                    head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
                    client.sendall(head.encode() + text)
                    return
                with upstream:
                    client.sendall(greeting)
                    upstream.sendall(first)
                    pump(client, upstream, IDLE_SECONDS)
        finally:
            self._free.release()

    def _open(self, head: bytes, rest: bytes) -> tuple[socket.socket, bytes, bytes]:
        """(connection, what to send on it first, what to tell the worker first)."""
        line, _, fields = head.partition(b"\r\n")
        try:
            method, address, version = line.decode("ascii").split(" ")
            if method == "CONNECT":
                host, _, port = address.rpartition(":")
                return self._connect(host, int(port)), rest, b"HTTP/1.1 200 Connection established\r\n\r\n"
            url = urlsplit(address)
            if url.scheme != "http" or not url.hostname or not version.startswith("HTTP/1."):
                raise Refused("only http:// addresses and CONNECT are carried")
            kept = [f for f in fields.split(b"\r\n") if f and f.partition(b":")[0].strip().lower() not in _REPLACED]
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            kept = [f"{method} {path} HTTP/1.1".encode(), f"Host: {url.netloc.rpartition('@')[2]}".encode(), *kept]
            kept.append(b"Connection: close")
            return self._connect(url.hostname, url.port or 80), b"\r\n".join(kept) + b"\r\n\r\n" + rest, b""
        except ValueError:
            raise Refused("that is no request to a proxy") from None

    def _connect(self, host: str, port: int) -> socket.socket:
        host = host.strip("[]").rstrip(".").lower()
        if (host, port) not in self._allowed:
            raise Refused(f"{host}:{port} is not among the hosts that this plugin declared")
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Refused(f"{host} was not found: {error}") from None
        addresses = [entry[4] for entry in found]
        if bad := [str(a[0]) for a in addresses if not self._may_reach(str(a[0]))]:
            raise Refused(f"{host} is at {bad[0]}, which is not a public address")
        problem: OSError | None = None
        for address in addresses:
            try:
                return socket.create_connection(address[:2], timeout=CONNECT_SECONDS)  # type: ignore[arg-type]
            except OSError as error:
                problem = error
        raise Refused(f"{host}:{port} cannot be reached: {problem}")

    def _may_reach(self, address: str) -> bool:
        ip = ipaddress.ip_address(address.partition("%")[0])
        for hidden in ("ipv4_mapped", "sixtofour"):
            ip = getattr(ip, hidden, None) or ip
        if ip in _TRANSLATED:
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if any(ip.version == network.version and ip in network for network in self._private):
            return True
        return ip.is_global and not ip.is_multicast and not ip.is_reserved


_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses that stand for IPv4 ones (RFC 6052)."""
_REPLACED = (b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"upgrade")


def pump(one: socket.socket, other: socket.socket, idle_seconds: float | None) -> None:
    """Carry bytes both ways until both sides have finished, or nothing has come for so long."""
    peers: dict[object, socket.socket] = {one: other, other: one}
    for side in (one, other):
        side.settimeout(idle_seconds)
    with selectors.DefaultSelector() as selector:
        for side in (one, other):
            selector.register(side, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(idle_seconds)
            if not ready:
                return
            for key, _ in ready:
                peer = peers[key.fileobj]
                if data := peers[peer].recv(CHUNK):
                    peer.sendall(data)
                else:
                    selector.unregister(key.fileobj)
                    with contextlib.suppress(OSError):
                        peer.shutdown(socket.SHUT_WR)


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """(request line and fields, what came after them)."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = client.recv(CHUNK)
        if not part or len(received) + len(part) > HEAD_BYTES:
            raise Refused("that is no request to a proxy")
        received += part
    head, _, rest = received.partition(b"\r\n\r\n")
    return head, rest


def _pairs(entry: str) -> list[tuple[str, int]]:
    host, colon, port = entry.rpartition(":")
    if colon and port.isdigit():
        return [(host.strip("[]").lower(), int(port))]
    return [(entry.strip("[]").rstrip(".").lower(), port) for port in DEFAULT_PORTS]
