"""SECRET=sigcb_v1_… python3 receiver.py: receives alerts on port 9123, and prints those whose signature is right."""

import base64
import hashlib
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

KEY = base64.urlsafe_b64decode(os.environ["SECRET"].removeprefix("sigcb_v1_") + "=")


def is_genuine(headers, body: bytes) -> bool:
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > 300:
        return False
    signed = f"{headers.get('webhook-id')}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest())
    # While a secret is rotated there are two signatures: one that fits is enough.
    signatures = headers.get("webhook-signature", "").encode().split(b" ")
    return any(hmac.compare_digest(expected, one) for one in signatures)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not is_genuine(self.headers, body):
            print("refused: the signature is wrong", flush=True)
            self.send_response(401)
        else:
            event = json.loads(body)
            summary = event["data"].get("incident", {}).get("summary", "")
            print(f"verified: {event['type']} {summary}".strip(), flush=True)
            self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(os.environ.get("RECEIVER_PORT", "9123"))), Receiver)
print("listening", flush=True)
server.serve_forever()
