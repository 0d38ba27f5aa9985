"""Shared by the tests of the page: a browser without a screen."""

import re
from html import unescape

from tests.service.kit import client_of


class Visitor:
    """Somebody at a browser: sends its origin, keeps its cookies, posts forms with their hidden fields."""

    def __init__(self, address, token=None):
        self.http = client_of(address)
        self.http.headers["Origin"] = address
        if token is not None:
            assert self.log_in(token).status_code == 303

    def log_in(self, token, then=""):
        return self.http.post("/page/log-in", data={"token": token, "then": then})

    def get(self, path, **options):
        return self.http.get(path, **options)

    def post(self, path, **fields):
        """A form as the page has it, with its own token."""
        return self.http.post(path, data={"form_token": self.form_token()} | fields)

    def form_token(self):
        found = re.search(r'name="form_token" value="([0-9a-f]{64})"', self.http.get("/page/").text)
        return found[1]


def fields_of(text, action):
    """The fields of the form with this action, as a browser would send them."""
    form = re.search(rf'<form method="post" action="{re.escape(action)}"[^>]*>(.*?)</form>', text, re.DOTALL)[1]
    found = {}
    for tag in re.findall(r"<input[^>]*>", form):
        kind, name = _attribute(tag, "type") or "text", _attribute(tag, "name")
        if name and (kind not in ("checkbox", "radio") or " checked" in tag):
            found[name] = _attribute(tag, "value") or ("on" if kind == "checkbox" else "")
    for name, text_ in re.findall(r'<textarea[^>]*name="([^"]*)"[^>]*>(.*?)</textarea>', form, re.DOTALL):
        found[name] = unescape(text_.removeprefix("\n"))
    for name, options in re.findall(r'<select[^>]*name="([^"]*)"[^>]*>(.*?)</select>', form, re.DOTALL):
        tags = re.findall(r"<option[^>]*>", options)
        chosen = next((tag for tag in tags if " selected" in tag), tags[0])
        found[name] = _attribute(chosen, "value") or ""
    return found


def _attribute(tag, name):
    found = re.search(rf'\s{name}="([^"]*)"', tag)
    return None if found is None else unescape(found[1])
