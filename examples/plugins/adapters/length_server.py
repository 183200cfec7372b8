"""A remote verifier for `http`: the length of a design, at http://127.0.0.1:8900/score. Needs nothing but Python."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verdicts = [{"id": design["id"], **judge(design["value"])} for design in asked["designs"]]
        body = json.dumps({"verdicts": verdicts}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def judge(value):
    if not isinstance(value, str):
        return {"error": "only molecules and sequences have a length"}
    return {"score": len(value), "accepted": len(value) <= 60}


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 8900), Handler).serve_forever()
