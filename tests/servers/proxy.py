"""A wire between a client and a server that can be cut, before or after a word of the client reached the server."""

import contextlib
import select
import socket
import threading

BEFORE, AFTER = "before", "after"


class Proxy:
    """Forwards connections to a port of this machine; `cut_at` says when it is cut, and `open` whether it works."""

    def __init__(self, port):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.open = True
        self._word, self._when, self._stays = None, None, True
        self._pairs = []
        threading.Thread(target=self._serve, daemon=True).start()

    def cut_at(self, word, when, stays=True):
        """Cut the connection that next sends this word: before it reaches the server, or when the server has replied.

        Unless it `stays`, no new connection is let through afterwards until `open` is set again.
        """
        self._word, self._when, self._stays = word, when, stays

    def cut(self):
        """Cut every connection now."""
        for pair in list(self._pairs):
            _end(*pair)

    def close(self):
        self.open = False
        self._listener.close()
        self.cut()

    def _serve(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.open:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._target))
            self._pairs.append((client, server))
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client, server):
        with contextlib.suppress(OSError, ValueError):
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65536)
                    if not data or (ready is client and self._cut(data, server)):
                        return _end(client, server)
                    (server if ready is client else client).sendall(data)
        _end(client, server)

    def _cut(self, data, server):
        if self._word is None or self._word not in data:
            return False
        self._word, self.open = None, self._stays
        if self._when == AFTER:
            server.sendall(data)
            server.recv(65536)
        return True


def _end(*ends):
    for each in ends:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
