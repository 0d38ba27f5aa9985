"""Receivers of news for tests: a place that is posted to and a server of mail, with the troubles that such have."""

import asyncio
import base64
import json
import ssl
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Posted(ThreadingHTTPServer):
    """Keeps what it was posted, and behaves as it was told, once each: a status, or one of the troubles.

    "slow" answers after a while, "hangs" later than anybody waits, "waits" when it may; "drops" closes the connection
    after it has taken it.
    """

    daemon_threads = True
    SLOW, HANGING = 0.05, 0.6

    def __init__(self, address=("127.0.0.1", 0)):
        self.taken, self.troubles, self.may = [], [], threading.Event()
        self.elsewhere = "http://127.0.0.1:1/elsewhere"
        super().__init__(address, _Posting)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/hook/T000/B000"


class _Posting(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        trouble = self.server.troubles.pop(0) if self.server.troubles else 204
        if not isinstance(trouble, int) or trouble < 300:
            self.server.taken.append((dict(self.headers), body))
        if trouble in ("slow", "hangs"):
            time.sleep(self.server.SLOW if trouble == "slow" else self.server.HANGING)
        if trouble == "waits":
            self.server.may.wait(60)
        if trouble in ("drops", "hangs"):
            self.close_connection = True
            return
        self.send_response(trouble if isinstance(trouble, int) else 200)
        self.send_header("Location", self.server.elsewhere)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Nothing."""


@contextmanager
def posted_to(address=("127.0.0.1", 0)):
    """A place that listens."""
    server = Posted(address)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Duty:
    """What PagerDuty makes of events: incidents by their keys, which an event that comes again does not open twice."""

    def __init__(self):
        self.open, self.opened, self.cared = {}, [], []

    def take(self, body):
        event = json.loads(body)
        key, action = event["dedup_key"], event["event_action"]
        if action == "trigger" and key not in self.open:
            self.open[key] = event["payload"].get("group", "")
            self.opened.append(key)
        elif action == "acknowledge" and key in self.open:
            self.cared.append(self.open[key])
        elif action == "resolve":
            self.open.pop(key, None)


class Mailed:
    """A server of mail that keeps what it was sent, as `(sender, receivers, text)`, and has troubles, once each.

    A trouble is a status at the end of a mail, "drops" for a connection that ends when it was taken, or an address
    that it refuses.
    """

    def __init__(self, *, tls="none", context=None, user=None):
        self.tls, self.context, self.user = tls, context, user
        self.taken, self.troubles, self.commands, self.port = [], [], [], 0

    async def serve(self, reader, writer):
        try:
            await _Session(self, reader, writer).served()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()


class _Session:
    def __init__(self, server, reader, writer):
        self.server, self.reader, self.writer = server, reader, writer
        self.secure, self.known = server.tls == "tls", server.user is None
        self.sender, self.to = "", []

    async def served(self):
        self.say("220 here")
        while (line := (await self.reader.readuntil(b"\n")).decode().strip()) != "QUIT":
            verb = line.split(" ")[0].upper()
            self.server.commands.append(line)
            await getattr(self, f"on_{verb.lower()}", self.unknown)(line)
        self.say("221 bye")

    def say(self, line):
        self.writer.write(f"{line}\r\n".encode())

    async def unknown(self, line):
        self.say("502 what")

    async def on_ehlo(self, line):
        offered = ["STARTTLS"] * (self.server.tls == "starttls" and not self.secure) + ["AUTH PLAIN"]
        self.say("\r\n".join([*(f"250-{each}" for each in ["here", *offered]), "250 HELP"]))

    async def on_starttls(self, line):
        self.say("220 go on")
        await self.writer.start_tls(self.server.context)
        self.secure = True

    async def on_auth(self, line):
        _, user, password = base64.b64decode(line.split(" ")[2]).decode().split("\0")
        self.known = (user, password) == self.server.user
        self.say("235 yes" if self.known else "535 no")

    async def on_mail(self, line):
        self.sender, self.to = line.partition("<")[2].partition(">")[0], []
        self.say("250 ok" if self.known and (self.secure or self.server.tls == "none") else "530 no")

    async def on_rcpt(self, line):
        address = line.partition("<")[2].partition(">")[0]
        refused = address in self.server.troubles
        if not refused:
            self.to.append(address)
        self.say("550 nobody" if refused else "250 ok")

    async def on_rset(self, line):
        self.say("250 ok")

    async def on_data(self, line):
        self.say("354 go on")
        body = await self.reader.readuntil(b"\r\n.\r\n")
        troubles = [each for each in self.server.troubles if each == "drops" or isinstance(each, int)]
        if troubles:
            self.server.troubles.remove(troubles[0])
        if not troubles or troubles[0] == "drops":
            self.server.taken.append((self.sender, self.to, body[:-5]))
        if troubles and troubles[0] == "drops":
            raise ConnectionError
        self.say(f"{troubles[0]} no" if troubles else "250 ok")


@contextmanager
def mailed_to(**said):
    """A server of mail that listens."""
    found, started, loop = Mailed(**said), threading.Event(), asyncio.new_event_loop()

    async def serving():
        context = found.context if found.tls == "tls" else None
        server = await asyncio.start_server(found.serve, "127.0.0.1", 0, ssl=context)
        found.port = server.sockets[0].getsockname()[1]
        found.stop = asyncio.Event()
        started.set()
        await found.stop.wait()
        server.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serving(),))
    thread.start()
    started.wait()
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(found.stop.set)
        thread.join()
        loop.close()
