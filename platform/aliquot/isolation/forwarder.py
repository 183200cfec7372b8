"""The worker's end of its way out: what comes to its loopback is carried to the supervisor's proxy as it is.

It decides nothing, and stands in the plugin's own process: all that is refused is refused by the proxy.
"""

from __future__ import annotations

import contextlib
import socket
import threading

CHUNK = 64 * 1024


def forward(port: int, path: str) -> None:
    """Listen on the loopback's port from a thread, and connect each caller with the socket at `path`."""
    listener = socket.create_server(("127.0.0.1", port))

    def serve() -> None:
        while True:
            client, _ = listener.accept()
            upstream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                upstream.connect(path)
            except OSError:
                client.close()
                continue
            for source, sink in ((client, upstream), (upstream, client)):
                threading.Thread(target=_carry, args=(source, sink), daemon=True).start()

    threading.Thread(target=serve, daemon=True, name="to the proxy").start()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
