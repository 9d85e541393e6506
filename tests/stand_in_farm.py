"""A program that answers as sccache-dist does, without compiling: for tests of what starts, asks and ends it."""

from __future__ import annotations

import sys
from pathlib import Path

_PROGRAM = """#!{python} -IS
import http.server, json, sys, time, tomllib, urllib.request

if "--version" in sys.argv:
    print("sccache 0.16.0")
    raise SystemExit
role, conf = sys.argv[1], tomllib.load(open(sys.argv[3], "rb"))
say = lambda level, text: print("[2026-11-18T02:00:00Z %s stand_in] %s" % (level, text), flush=True)
known = set()


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({{"num_servers": len(known), "num_cpus": 2 * len(known), "in_progress": 0}}).encode()
        self.reply(200, body)

    def do_POST(self):
        address = self.headers["X-Address"]
        if self.headers["Authorization"].count(".") != 2:
            return self.reply(401, b"invalid_bearer_token")
        known.add(address)
        say("INFO ", "Registered new server ServerId(%s)" % address)
        self.reply(200, b"")

    def reply(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


host, port = conf["public_addr"].rsplit(":", 1)
server = http.server.ThreadingHTTPServer((host, int(port)), Answers)
if role == "server":
    headers = {{"X-Address": conf["public_addr"], "Authorization": conf["scheduler_auth"]["token"]}}
    try:
        urllib.request.urlopen(urllib.request.Request(conf["scheduler_url"], b"", headers))
        say("INFO ", "Server connected to scheduler")
    except OSError as error:
        say("ERROR", "Failed to send heartbeat to server: %s" % error)
server.serve_forever()
"""


def write_stand_in(folder: Path) -> Path:
    """The program; put its folder on PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "sccache-dist"
    program.write_text(_PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    return program
