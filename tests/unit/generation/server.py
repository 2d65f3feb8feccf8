"""A local endpoint of OpenAI's protocol that answers as a test wants, failures included."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Reply:
    """What to send for one request."""

    def __init__(self, text="", *, status=200, headers=None, finish="stop", refusal=None, raw=None):
        self.text, self.status, self.headers = text, status, headers or {}
        self.finish, self.refusal, self.raw = finish, refusal, raw

    def body(self, model):
        if self.raw is not None:
            return self.raw
        if self.status != 200:
            return json.dumps({"error": {"message": self.text, "type": "x", "code": None}}).encode()
        message = {"role": "assistant", "content": self.text, "refusal": self.refusal}
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        answer = {"id": "x", "object": "chat.completion", "created": 0, "model": model}
        return json.dumps({**answer, "choices": [choice], "usage": usage}).encode()


class Server:
    """Asked for a reply with each request; `requests` are bodies, `keys` what was authorised."""

    def __init__(self, reply):
        self.reply, self.requests, self.keys, self.lock = reply, [], [], threading.Lock()
        self.running = self.most = 0
        self.url = ""


@contextmanager
def serving(reply):
    """A server whose `reply(body, number)` gives a Reply, or None to cut the connection."""
    server = Server(reply)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.lock:
                number = len(server.requests)
                server.requests.append(body)
                server.keys.append(self.headers.get("Authorization"))
                server.running += 1
                server.most = max(server.most, server.running)
            try:
                assert self.path == "/v1/chat/completions", self.path
                found = server.reply(body, number)
                if found is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                content = found.body(body["model"])
                self.send_response(found.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                for name, value in found.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
            except (BrokenPipeError, ConnectionResetError, ValueError, OSError):
                pass  # the other side has gone, or this one has hung up
            finally:
                with server.lock:
                    server.running -= 1

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server.url = f"http://127.0.0.1:{listening.server_address[1]}/v1"
    thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def prompt_of(body):
    """The text that was sent."""
    return body["messages"][0]["content"]
