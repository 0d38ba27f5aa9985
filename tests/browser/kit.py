"""A real browser at a real service: the system's Chromium by Playwright, and `chary serve` in a process of its own."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager

import httpx
from pyarrow import csv

from chary.demo.panel import first_year
from chary.service.auth.tokens import BearerTokens
from chary.service.store import ServiceStore
from tests.paths import ROOT
from tests.service.kit import wait_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DATASET, STORE = "people", "kept.db"
CONFIG = """
[service]
port = {port}
store = "{store}"
rate = 1000
burst = 1000

[dataset.{dataset}]
file = "people.csv"
row-level = true
neighbors = "replace"
columns = {columns}
budget-epsilon = 1
budget-delta = "1e-6"
shares = {{bob = "0.25"}}
"""
COLUMNS = '{age = "BIGINT", female = "BIGINT", site = "BIGINT", plan = "BIGINT", visits = "VARCHAR"}'
_SERVE = "from chary.cli import main; main()"
# Who stops a service waits for streams, which end when they look again.
_STOPS = 30
# Machines under test are busy; nothing here is a measurement.
PATIENCE = 120
SERIOUS = {"serious", "critical"}


def missing():
    """Why there is no browser here; None if there is one."""
    if importlib.util.find_spec("playwright") is None:
        return "the package playwright is not installed: pip install 'chary[dev]'"
    return None if CHROMIUM else "there is no Chromium on this machine"


class Site:
    """A service that listens: its address, and tokens for it."""

    def __init__(self, folder, port):
        self.folder, self.address = folder, f"http://127.0.0.1:{port}"
        self.tokens = BearerTokens(ServiceStore(folder / STORE))

    def token(self, analyst, *roles):
        """A token for a day."""
        return self.tokens.make(analyst, roles=list(roles), datasets=[DATASET], days=1)

    def ready(self):
        """Whether calls can be asked."""
        try:
            return httpx.get(f"{self.address}/ready", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def serving(folder):
    """`chary serve` in a process of its own: the first year of the built-in data, on a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    csv.write_csv(first_year(), folder / "people.csv")
    said = CONFIG.format(port=port, store=STORE, dataset=DATASET, columns=COLUMNS)
    (folder / "chary.toml").write_text(said)
    command = [sys.executable, "-c", _SERVE, "serve", "--quiet", "--json", "--config", folder / "chary.toml"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
    try:
        site = Site(folder, port)
        wait_for(lambda: site.ready() or process.poll() is not None, PATIENCE)
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        yield site
    finally:
        process.terminate()
        process.wait(_STOPS)


@contextmanager
def browsing():
    """The system's Chromium, without a window."""
    playwright = importlib.import_module("playwright.sync_api")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """Somebody at the page, with cookies of one's own; `complaints` is what the browser's console said was wrong."""

    def __init__(self, browser, address, **options):
        self.address, self.complaints = address, []
        self.context = browser.new_context(base_url=address, **options)
        self.context.set_default_timeout(500 * PATIENCE)
        self.page = self.context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))

    def _heard(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} at {message.location.get('url')}")

    def log_in(self, token):
        """By the form, as everybody does."""
        self.page.goto("/page/log-in")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url(lambda url: "log-in" not in url)

    def refused(self, status):
        """What was done just now was refused, which the console says of every page with such a status."""
        assert f"the server responded with a status of {status}" in self.complaints.pop()

    def until(self, found, place):
        """Load a page until something is there."""

        def again():
            self.page.goto(place)
            return found()

        wait_for(again, PATIENCE)

    def too_wide(self):
        """By how many pixels the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def violations(page):
    """What axe finds serious or critical on the page as it is now, with the places."""
    axe = importlib.import_module("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [
        f"{each['id']}: {'; '.join(str(node['target']) for node in each['nodes'])}"
        for each in found
        if each["impact"] in SERIOUS
    ]


def batch(folder, rows, age):
    """A CSV of so many people of one age."""
    place = folder / f"batch-{rows}-{age}.csv"
    lines = [f'{age},0,1,1,"none"'] * rows
    place.write_text("\n".join(["age,female,site,plan,visits", *lines]) + "\n")
    return place
