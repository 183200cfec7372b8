"""A worker that may reach some hosts reaches those, through our proxy, and has no other way out."""

from __future__ import annotations

import http.server
import socket
import threading
from ipaddress import ip_network

import pytest

from aliquot.isolation.proxy import Proxy
from tests.isolation.attacks import attack, contained


class Pages(http.server.BaseHTTPRequestHandler):
    """`/` says hello, `/away` redirects to another port, `/secret` must never be asked for."""

    asked: list[str] = []

    def do_GET(self):
        Pages.asked.append(f"{self.headers['Host']} {self.path}")
        self.send_response(302 if self.path == "/away" else 200)
        self.send_header("Location", "http://localhost:1/secret")
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def pages():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def connected(plugin, pages, monkeypatch):
    monkeypatch.setenv("ALIQUOT_SANDBOX_PRIVATE", "127.0.0.0/8,::1/128")
    service = contained(plugin, network=(f"localhost:{pages}", "localhost:1", "nowhere.invalid"))
    yield service
    service.close()


def test_an_allowed_host_is_reached_and_another_is_not(connected, pages):
    assert attack(connected, "over_http", f"http://localhost:{pages}/") == [200, "hello"]
    status, text = attack(connected, "over_http", f"http://127.0.0.1:{pages}/")
    assert status == 403 and "not among the hosts that this plugin declared" in text
    assert attack(connected, "over_http", "https://example.com/")[0] == 0
    status, text = attack(connected, "over_http", "http://nowhere.invalid/")
    assert status == 403 and "was not found" in text


def test_the_proxy_is_the_only_way_out(connected, pages):
    said = attack(connected, "network_beyond_proxy", ["127.0.0.1", pages])
    assert said.pop("server") in {"EACCES", "ECONNREFUSED"} and said.pop("listen") in {"EACCES", "EPERM"}
    assert {*said.values()} == {"EAFNOSUPPORT"}


def test_a_public_name_that_leads_to_a_private_address_is_refused(plugin, pages):
    service = contained(plugin, network=(f"localhost:{pages}",))
    Pages.asked.clear()
    status, text = attack(service, "over_http", f"http://localhost:{pages}/")
    assert status == 403 and "not a public address" in text and Pages.asked == []
    service.close()


def test_a_redirect_is_checked_like_any_request(plugin, pages, monkeypatch):
    monkeypatch.setenv("ALIQUOT_SANDBOX_PRIVATE", "127.0.0.0/8,::1/128")
    service = contained(plugin, network=(f"localhost:{pages}",))
    status, text = attack(service, "over_http", f"http://localhost:{pages}/away")
    assert status == 403 and "localhost:1 is not among" in text
    service.close()


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "fe80::1", "fc00::1",
     "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "255.255.255.255", "::"],
)  # fmt: skip
def test_addresses_that_are_not_public_are_never_reached(address):
    with Proxy(()) as proxy:
        assert not proxy._may_reach(address)


def test_public_addresses_and_named_private_networks_may_be_reached():
    with Proxy((), (ip_network("10.1.2.0/24"),)) as proxy:
        assert proxy._may_reach("8.8.8.8") and proxy._may_reach("2606:4700::1") and proxy._may_reach("10.1.2.3")
        assert not proxy._may_reach("10.1.3.1")


@pytest.mark.parametrize(
    "request_",
    [b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n", b"\r\n\r\n", b"CONNECT x HTTP/1.1\r\n\r\n", b"a" * 70_000,
     b"GET ftp://allowed.example/ HTTP/1.1\r\n\r\n", b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n",
     b"GET http://allowed.example@evil.example/ HTTP/1.1\r\n\r\n", b"CONNECT allowed.example:22 HTTP/1.1\r\n\r\n"],
)  # fmt: skip
def test_anything_else_is_refused_in_words(request_):
    with Proxy(("allowed.example",)) as proxy, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(proxy.path)
        client.sendall(request_)
        assert client.recv(1000).startswith(b"HTTP/1.1 403")
