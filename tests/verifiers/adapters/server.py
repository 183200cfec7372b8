"""A remote verifier of one's own, in a process of its own: scores by length, and misbehaves as it is told to."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

state: dict[str, Any] = {"how": ["well"], "seen": [], "jobs": {}, "last": []}
lock = threading.Lock()


def verdicts(designs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": d["id"], "score": len(d["value"]), "accepted": "Br" not in d["value"], "values": {"of": d["value"]}}
        for d in designs
    ]


def bent(how: str, found: list[dict[str, Any]]) -> Any:
    """An answer that is wrong in the way that is asked for."""
    match how:
        case "shifted":
            scores = [entry["score"] for entry in found]
            return (
                [{**entry, "id": state["last"][i]["id"]} for i, entry in enumerate(found)] if state["last"] else scores
            )
        case "twice":
            return [*found, {**found[0], "score": 99}]
        case "one less":
            return found[1:]
        case "nan":
            return [{**found[0], "score": float("nan")}, *found[1:]]
        case "text":
            return [{**found[0], "score": "0.9"}, *found[1:]]
        case "error":
            return [{"id": found[0]["id"], "error": "no conformer"}, *found[1:]]
        case "reversed":
            return found[::-1]
    return found


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def send(self, status: int, body: Any, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
        if self.path == "/behave":
            state.update(how=body, seen=[], jobs={}, last=[])
            return self.send(200, None)
        if self.path == "/seen":
            return self.send(200, state["seen"])
        with lock:
            how = state["how"].pop(0) if len(state["how"]) > 1 else state["how"][0]
            state["seen"].append({"body": body, "authorization": self.headers.get("Authorization"), "path": self.path})
        if self.path == "/jobs":
            return self.start(how, body["designs"])
        self.answer(how, body["designs"])
        return None

    def answer(self, how: Any, designs: list[dict[str, Any]]) -> None:
        found = verdicts(designs)
        if isinstance(how, int):
            return self.send(how, {"said": f"no, {self.headers.get('Authorization')}"}, Retry_After="0.01")
        match how:
            case "unprocessable bromine":
                refused = any("Br" in design["value"] for design in designs)
                return self.send(422 if refused else 200, {"verdicts": found})
            case "garbage":
                return self.send(200, b"<html>it works</html>")
            case "list":
                return self.send(200, found)
            case "huge":
                return self.send(200, b'{"verdicts": "' + b"x" * 200_000 + b'"}')
            case "late":
                time.sleep(3)
            case "cut":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"verdicts": [')
                self.close_connection = True
                return None
            case "hang up":
                self.close_connection = True
                return None
            case "redirect":
                return self.send(302, b"", Location="http://127.0.0.1:1/elsewhere")
            case "drip":
                self.send_response(200)
                self.send_header("Content-Length", "100")
                self.end_headers()
                for _ in range(100):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.1)
                return None
        answer = bent(how, found)
        if how == "well":
            state["last"] = designs
        return self.send(200, {"verdicts": answer})

    def start(self, how: Any, designs: list[dict[str, Any]]) -> None:
        if how == "at once":
            return self.send(200, {"verdicts": verdicts(designs)})
        if how == "elsewhere":
            return self.send(202, {"poll": "http://127.0.0.1:1/jobs/1"})
        number = len(state["jobs"]) + 1
        state["jobs"][str(number)] = {"designs": designs, "polls": 0}
        if how == "location":
            return self.send(202, b"", Location=f"/jobs/{number}")
        return self.send(202, {"poll": f"/jobs/{number}"})

    def do_GET(self) -> None:
        job = state["jobs"].get(self.path.rpartition("/")[2])
        if job is None:
            return self.send(404, {"said": "no such job"})
        job["polls"] += 1
        found = verdicts(job["designs"])
        match job["polls"]:
            case 1:
                return self.send(202, {})
            case 2:
                return self.send(503, {})
            case 3:
                return self.send(202, {"verdicts": found[:1]})
        return self.send(200, {"verdicts": found[:-1] if len(found) > 2 else found})


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
