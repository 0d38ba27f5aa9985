"""News for feed readers: valid whatever a note says, the same identities each time, for whom a feed is."""

import base64
import datetime
import json
from typing import Literal
from xml.etree import ElementTree

import pytest
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from chary.service.core.alerts import News
from chary.service.core.requests import Wish
from tests.service.kit import client_of, serve_visits, token_of
from tests.service.test_delivery import HOSTILE, KINDS

ATOM = "{http://www.w3.org/2005/Atom}"
PLACES = ("feed.atom", "feed.json")
NAME = "Süd & <Nord>"


@pytest.fixture(scope="module")
def told(service):
    """Two analysts' news on a dataset whose name is not plain."""
    serve_visits(service, NAME)
    for analyst in ("alice", "bob"):
        who = service.tokens.recognise(token_of(service, analyst))
        terms = {"every": "append", "share": 1, "tell": "hits", "webhook": None}
        standing = service.standing.book.add(who, NAME, Wish("question", {}, 1), 0, **terms)
        for version, (kind, note) in enumerate(zip(KINDS, HOSTILE * 2, strict=False), 2):
            news = News(kind, version, 9, note, "critical", note, (note, "north") if note else ())
            service.standing.feed.add(standing, news)


def basic(token, name="reader"):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()}


@pytest.fixture
def read(service, address, told):
    def reading(place, headers, name=NAME):
        with client_of(address) as client:
            return client.get(f"/v1/datasets/{name}/{place}", headers=headers)

    return reading


class Item(BaseModel):
    """https://www.jsonfeed.org/version/1.1, items, of which we say no more."""

    model_config = ConfigDict(extra="forbid")
    id: str = Field(min_length=1)
    title: str
    content_text: str = Field(min_length=1)
    date_published: AwareDatetime
    tags: list[str]


class JSONFeed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    version: Literal["https://jsonfeed.org/version/1.1"]
    title: str
    feed_url: str = Field(pattern="^http://127")
    items: list[Item]


def test_atom_is_well_formed_and_has_what_the_standard_demands(service, read):
    answer = read("feed.atom", basic(token_of(service)))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/atom+xml")
    feed = ElementTree.fromstring(answer.content)
    assert feed.tag == f"{ATOM}feed"
    assert NAME in feed.findtext(f"{ATOM}title")
    entries = feed.findall(f"{ATOM}entry")
    assert len(entries) == len(KINDS)
    for each in [feed, *entries]:
        assert all(len(each.findall(f"{ATOM}{name}")) == 1 for name in ("id", "title", "updated"))
        assert datetime.datetime.fromisoformat(each.findtext(f"{ATOM}updated")).tzinfo
        assert each.findtext(f"{ATOM}id").startswith("urn:chary:")
    assert feed.find(f"{ATOM}author/{ATOM}name").text
    assert len({each.findtext(f"{ATOM}id") for each in entries}) == len(entries)
    times = [each.findtext(f"{ATOM}updated") for each in entries]
    assert times == sorted(times, reverse=True)
    assert "停電 🏭" in answer.text
    assert "<script" not in answer.text


def test_a_json_feed_is_one(service, read):
    answer = read("feed.json?after=3", basic(token_of(service)))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/feed+json")
    found = JSONFeed.model_validate_json(answer.content)
    assert len(found.items) == len(KINDS)
    assert "after" not in found.feed_url
    assert not any(set("\x00\x1b\u202e\r") & set(each.title + each.content_text) for each in found.items)


@pytest.mark.parametrize("place", PLACES)
def test_identities_are_those_of_before_and_of_the_other_feed(service, read, place):
    token = token_of(service)

    def identities(place):
        answer = read(place, basic(token))
        if place == "feed.json":
            return [each["id"] for each in answer.json()["items"]]
        return [each.text for each in ElementTree.fromstring(answer.content).iterfind(f"{ATOM}entry/{ATOM}id")]

    assert identities(place) == identities(PLACES[0]) == identities(PLACES[1])


@pytest.mark.parametrize("place", PLACES)
def test_a_feed_has_what_the_token_is_shown_elsewhere(service, read, place):
    for analyst, roles, shown in (
        ("alice", ["analyst"], 1),
        ("carol", ["custodian"], 2),
        ("rae", ["reader"], 0),
        ("bob", ["reader"], 1),
    ):
        answer = read(place, basic(token_of(service, analyst, roles)))
        assert answer.text.count("urn:chary:") - answer.text.count("urn:chary:feed") == shown * len(KINDS)
    assert read(place, basic(token_of(service, "alice", datasets=["votes"]))).status_code == 404


@pytest.mark.parametrize("place", PLACES)
def test_a_feed_of_nothing_is_one(service, read, place):
    answer = read(place, basic(token_of(service)), "visits")
    assert answer.status_code == 200
    if place == "feed.json":
        assert JSONFeed.model_validate_json(answer.content).items == []
    else:
        assert ElementTree.fromstring(answer.content).findtext(f"{ATOM}updated") == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("place", PLACES)
def test_the_token_is_the_password_under_any_name_or_a_bearer(service, read, place):
    token = token_of(service)
    for right in (basic(token), basic(token, ""), basic(token, "ä b"), {"Authorization": f"Bearer {token}"}):
        assert read(place, right).status_code == 200
    for wrong in ("Basic", "Basic !", "Basic " + base64.b64encode(token.encode()).decode(), "Digest x", None):
        answer = read(place, {"Authorization": wrong} if wrong else {})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
    for wrong in (basic("chary_x_y"), basic(token + "x"), basic(token[:-1]), basic(f"x:{token}")):
        assert read(place, wrong).status_code in (401, 429)


def test_nothing_else_takes_a_password(service, address, told):
    """Browsers send it by themselves, also from other sites."""
    token = token_of(service, "alice", ["analyst", "custodian"])
    with client_of(address) as client:
        for place in ("feed", "feed/events", "calls", "budget", "standing"):
            answer = client.get(f"/v1/datasets/visits/{place}", headers=basic(token))
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer ")
        for method in ("POST", "PUT", "DELETE"):
            answer = client.request(method, "/v1/datasets/visits/feed.atom", headers=basic(token))
            assert answer.status_code == 405
        assert client.get("/metrics", headers=basic(token)).status_code == 401


def test_no_token_is_in_an_address(service, read):
    token = token_of(service)
    assert read(f"feed.atom?token={token}", {}).status_code == 401
    assert token not in read("feed.atom", basic(token)).text
    assert token not in json.dumps(read(f"feed.json?token={token}", basic(token)).json())
