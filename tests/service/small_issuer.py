"""A small issuer of OpenID Connect on this machine: discovery, keys, and the two ends of an authorization code."""

import base64
import json
import secrets
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from chary.service.auth.openid import challenge

NOW = 1_800_000_000
AUDIENCE, CLIENT, SECRET = "chary", "the-page", "a secret of ours"
REDIRECT = "http://127.0.0.1:9/page/back"
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
OTHER = ECKey.generate_key("P-256", {"kid": "ec"})


class SmallIssuer:
    """What it publishes can be changed; `asked` says what was asked for."""

    def __init__(self, address):
        self.name = address
        self.keys = [RSA, EC]
        self.document = {
            "issuer": address,
            "jwks_uri": f"{address}/keys",
            "authorization_endpoint": f"{address}/log-in",
            "token_endpoint": f"{address}/token",
        }
        self.asked, self.away, self.codes = [], False, {}
        self.id_token = {}

    def token(self, key=EC, alg="ES256", header=None, **claims):
        """A token of somebody in statistics, unless claims say otherwise; None leaves one out."""
        said = {"iss": self.name, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 300, "iat": NOW}
        said |= {"realm": {"roles": ["statistics"]}} | claims
        known = {name: value for name, value in said.items() if value is not None}
        head = {"alg": alg, "kid": key.kid} | (header or {})
        return jwt.encode({name: value for name, value in head.items() if value is not None}, known, key, [alg])

    def log_in(self, address):
        """What the issuer's own page does with somebody who is who he is: a code, bound to what was asked."""
        asked = dict(parse_qsl(urlsplit(address).query))
        code = secrets.token_hex(8)
        self.codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": self.name}

    def taken(self, sent, authorization):
        """The token endpoint: one answer a code, for whoever has the verifier and the secret."""
        asked = self.codes.pop(sent.get("code"), None)
        basic = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '%20')}".encode()).decode()
        if asked is None or challenge(sent["code_verifier"]) != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        if authorization != f"Basic {basic}" or sent["redirect_uri"] != asked["redirect_uri"]:
            return 401, {"error": "invalid_client"}
        claims = {"aud": CLIENT, "nonce": asked["nonce"]} | self.id_token
        return 200, {"id_token": self.token(**claims), "access_token": "x", "token_type": "Bearer"}


@contextmanager
def issuing():
    """An issuer that listens."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            issuer.asked.append(self.path)
            keys = {"keys": [key if isinstance(key, dict) else key.as_dict(private=False) for key in issuer.keys]}
            found = {"/.well-known/openid-configuration": issuer.document, "/keys": keys}.get(self.path)
            self.answer(503 if issuer.away else 200 if found else 404, found)

        def do_POST(self):
            sent = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self.answer(*issuer.taken(sent, self.headers.get("Authorization")))

        def answer(self, status, told):
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    issuer = SmallIssuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def options(issuer, **more):
    """What a chary.toml says of it."""
    grant = {"claim": "realm.roles", "value": "statistics", "roles": ["analyst"], "datasets": ["visits"]}
    keeping = {"claim": "sub", "value": "carol", "roles": ["custodian"], "datasets": ["*"]}
    return {"issuer": issuer.name, "audience": AUDIENCE, "grant": [grant, keeping]} | more
