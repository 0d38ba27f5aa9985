"""Sessions whose reports are looked at, and how pages are read."""

from html.parser import HTMLParser

import chary
from chary import Budget, count
from chary.calls import OnChange
from chary.noise import Seeded
from tests.session.kit import CLINICS, SECRET_NAME, SECRET_NUMBER, visits

FORMS = (".html", ".md", ".csv", ".pdf")
HOSTILE = '<script>alert("x")</script>|`*_[a](javascript:b)'
NEVER, SURE = 10**9, -(10**9)


def asked(ledger, **options):
    """A session with a hit, a miss, a held outcome, a watch, releases and a track; the table holds what is secret. Its
    noise is known."""
    usual = {"privacy_unit": "patient", "budget": Budget(epsilon=2, delta=1e-6), "ledger": ledger, "dataset": "visits"}
    session = chary.open(visits(), **(usual | {"unsafe_noise": Seeded(2)} | options))
    session.release(count("age >= 44"), epsilon="0.2")
    session.test(count(), above=NEVER, epsilon="0.02")
    session.test(count(), above=SURE, epsilon="0.02")
    session.release_if(count(), above=NEVER, epsilon="0.02")
    session.release_if(count().by("clinic", CLINICS), above=10, epsilon="0.05")
    session.release(count().by("clinic", CLINICS), epsilon="0.1")
    for key in ("Monday", "Tuesday"):
        session.ask(OnChange(count(), step=50, epsilon="0.05"), request=key)
    return session


def secrets():
    """What must be nowhere in a report."""
    return [str(SECRET_NUMBER), SECRET_NAME, f"{SECRET_NUMBER:,}"]


class Page(HTMLParser):
    """The elements of a page that matter for safety and for who cannot see it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.images, self.ids, self.told = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [found["id"]] if "id" in found else []
        if tag == "svg":
            self.images.append(found)

    def handle_data(self, data):
        self.told.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.told).split())
