"""Delivery of news: each is taken once by a receiver that keeps identities, in a form that it reads."""

import datetime
import email
import email.policy
import itertools
import json
import logging
import os
import random
import ssl
import threading
import time
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import ExitStack, closing
from ipaddress import ip_address
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from chary.client import check_webhook
from chary.errors import InvalidParameter
from chary.service.config import configured, service_config
from chary.service.core import delivery
from chary.service.core.alerts import News
from chary.service.core.delivery import Delivery
from chary.service.core.requests import Wish
from chary.service.state import opened_service
from tests.children import Python
from tests.service.kit import service_at, token_of
from tests.service.receivers import Duty, mailed_to, posted_to

SECRET = b"a secret of more than twenty-four bytes"
ROUTING = b"0123456789abcdef0123456789abcdef"
FORMS = ("generic", "slack", "pagerduty")
HOSTILE = (
    "<!channel> *now* & @channel",
    "peak\r\nBcc: everybody@example.org\r\n\r\nread this",
    "\x00\x1b[31m\u202e\u2028 ]]> <script>",
    "Überlast in der Südstraße — 停電 🏭",
    "x" * 20_000,
    "",
)
KINDS = ("fired", "cleared", "hit", "answer", "unverified", "failing", "running out", "skipped", "ended")


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(delivery, "_SECONDS", 0.2)


@pytest.fixture
def telling(tmp_path):
    """Make a service that tells one receiver over HTTP."""
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "routing").write_bytes(ROUTING)
    with ExitStack() as left:

        def made(receiver, form="generic"):
            secret = {"generic": {"secret-file": "secret"}, "pagerduty": {"secret-file": "routing"}}.get(form, {})
            place = {"url": receiver.url, "form": form} | secret
            return left.enter_context(closing(Telling(service_at(tmp_path, webhook={"ops": place}))))

        yield made


@pytest.fixture
def mailing(tmp_path):
    """Make a service that tells one by mail."""
    with ExitStack() as left:

        def made(server, **said):
            usual = {"host": "127.0.0.1", "port": server.port, "tls": server.tls, "from": "chary@example.org"}
            place = usual | {"to": ["ops@example.org"]} | said
            return left.enter_context(closing(Telling(service_at(tmp_path, mail={"ops": place}))))

        yield made


class Telling:
    def __init__(self, service):
        self.service, self.clock = service, [service.standing.book.clock()]
        self.delivery = self.another()
        who = service.tokens.recognise(token_of(service))
        terms = {"every": "append", "share": 1, "tell": "hits", "webhook": "ops"}
        self.standing = service.standing.book.add(who, "visits", Wish("question", {}, 1), 0, **terms)
        self.versions = itertools.count(2)

    def close(self):
        self.delivery.close(5)
        self.service.store.close()

    def another(self):
        """As another process would send."""
        return Delivery(self.service.config, self.service.store, lambda: self.clock[0])

    def tell(self, kind="fired", *groups, version=None, **said):
        version = next(self.versions) if version is None else version
        said = {"detail": "", "call": 9} | said
        self.service.standing.feed.add(self.standing, News(kind, version, **said, groups=groups))
        return version

    def pass_time(self, seconds=600.0):
        self.clock[0] += seconds
        return self.delivery.tick()

    def drain(self):
        """Until everything is taken."""
        for _ in range(200):
            if self.delivery.waiting()["ops"][0] == 0:
                return
            self.pass_time()
        raise AssertionError("something was never taken")


# What receivers document, to the letter: a field that they do not know is as wrong as one that is missing.


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Generic(Strict):
    number: int = Field(ge=1)
    standing: str = Field(pattern="^[0-9a-f]{16}$")
    analyst: str
    dataset: str
    time: str
    kind: Literal[KINDS]
    version: int
    call: int | None
    detail: str
    severity: Literal["info", "warning", "critical"] | None
    note: str | None
    groups: list[str]
    silenced: bool
    acknowledged: str | None
    acknowledged_by: str | None


class SlackField(Strict):
    title: str
    value: str
    short: bool


class Attachment(Strict):
    """https://docs.slack.dev/messaging/formatting-message-text, secondary attachments."""

    fallback: str
    color: str = Field(pattern="^#[0-9a-f]{6}$")
    fields: list[SlackField] = Field(min_length=1)
    ts: int
    mrkdwn_in: list[Literal["text", "pretext", "fields"]]


class Slack(Strict):
    text: str = Field(min_length=1, max_length=3000)
    mrkdwn: bool
    attachments: list[Attachment] = Field(max_length=20)


class EventPayload(Strict):
    """https://developer.pagerduty.com/docs/events-api-v2-overview; limits as its reference says them."""

    summary: str = Field(min_length=1, max_length=1024)
    source: str = Field(min_length=1)
    severity: Literal["critical", "error", "warning", "info"]
    timestamp: str
    component: str
    group: str | None = None
    class_: str = Field(alias="class")
    custom_details: dict[str, JsonValue]


class Event(Strict):
    routing_key: str = Field(min_length=32, max_length=32)
    event_action: Literal["trigger", "acknowledge", "resolve"]
    dedup_key: str = Field(min_length=1, max_length=255)
    client: str
    payload: EventPayload


READERS = {"generic": Generic, "slack": Slack, "pagerduty": Event}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_what_its_receivers_read(telling, form):
    with posted_to() as receiver:
        made = telling(receiver, form)
        for kind, note in [*itertools.product(["fired"], HOSTILE), *zip(KINDS, itertools.cycle(HOSTILE), strict=False)]:
            groups = [note, "north"] if kind in ("fired", "cleared") else []
            made.tell(kind, *groups, severity="critical", note=note, detail=note)
        made.tell("ended", version=0, call=None, detail="its token is not valid any more")
        made.drain()
        for _, body in receiver.taken:
            READERS[form].model_validate_json(body)
            assert len(body) < 100_000
        if form == "slack":
            for marked in ("<!channel>", "@channel", "<script>", "\r", "\u202e"):
                assert not any(json.dumps(marked)[1:-1].encode() in body for _, body in receiver.taken)
        if form == "pagerduty":
            times = [json.loads(body)["payload"]["timestamp"] for _, body in receiver.taken]
            assert all(datetime.datetime.fromisoformat(each).tzinfo for each in times)
        assert not any(b"value" in body and form == "generic" for _, body in receiver.taken)


def identity_of(form, headers, body):
    """By which a receiver knows what came before."""
    if form == "pagerduty":
        event = json.loads(body)
        return event["dedup_key"], event["event_action"]
    if form == "slack":
        return headers["webhook-id"]
    return check_webhook(SECRET, headers, body, now=float(headers["webhook-timestamp"]))


TROUBLES = [[], [500], ["slow"], ["drops"], ["hangs"], [429, "drops", 302, "drops", 503], ["drops", "drops"]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("troubles", TROUBLES, ids=str)
def test_whatever_happens_each_is_taken_once_by_who_keeps_identities(telling, form, troubles):
    with posted_to() as receiver:
        made, receiver.troubles[:] = telling(receiver, form), troubles
        for kind in ("fired", "cleared", "fired"):
            made.tell(kind, *(["north", "south"] if form == "pagerduty" else []))
        made.drain()
        kept = [identity_of(form, *each) for each in receiver.taken]
        expected = 6 if form == "pagerduty" else 3
        assert len(set(kept)) == expected
        repeated = sum(each in ("drops", "hangs") for each in troubles)
        assert len(kept) == expected + repeated
        assert list(dict.fromkeys(kept)) == kept or repeated
        assert made.delivery.waiting() == {"ops": (0, 0)}


@pytest.mark.parametrize("form", FORMS)
def test_a_receiver_that_is_down_at_first_gets_what_waited(telling, form):
    with posted_to() as receiver:
        address = receiver.server_address
        made = telling(receiver, form)
    made.tell("fired", "north")
    assert [made.delivery.tick(), made.pass_time()] == [0, 0]
    assert made.delivery.waiting() == {"ops": (1, 0)}
    with posted_to(address) as receiver:
        made.drain()
        assert len(receiver.taken) == 1


@pytest.mark.parametrize("seed", range(5))
def test_what_is_open_at_pagerduty_is_what_is_active(telling, seed):
    """Against brute force: random groups fire and clear while random troubles happen; nothing overtakes."""
    drawn, active, episodes = random.Random(seed), set(), 0
    with posted_to() as receiver:
        made, duty = telling(receiver, "pagerduty"), Duty()
        for _ in range(15):
            changed = {each for each in ("", "north", "south", "<!here>") if each and drawn.random() < 0.5}
            fired, cleared = sorted(changed - active), sorted(changed & active)
            version = next(made.versions)
            for kind, groups in (("cleared", cleared), ("fired", fired)):
                if groups:
                    made.tell(kind, *groups, version=version)
            active, episodes = active ^ changed, episodes + len(fired)
            receiver.troubles += drawn.choices([204, 500, 429, "drops"], [6, 2, 1, 1], k=drawn.randrange(4))
            made.pass_time(drawn.choice([5.0, 30.0, 600.0]))
        made.drain()
        for _, body in receiver.taken:
            duty.take(body)
    assert sorted(duty.open.values()) == sorted(active)
    assert (len(duty.opened), len(set(duty.opened))) == (episodes, episodes)


def test_an_alert_without_groups_opens_and_closes_as_well(telling):
    with posted_to() as receiver:
        made, duty = telling(receiver, "pagerduty"), Duty()
        for kind, opened in (("fired", 1), ("cleared", 0), ("fired", 1)):
            made.tell(kind)
            made.drain()
            duty.take(receiver.taken[-1][1])
            assert len(duty.open) == opened
    assert len(set(duty.opened)) == 2


def test_what_is_acknowledged_here_is_so_at_pagerduty(telling):
    """Also by groups that cleared meanwhile, again, and where nobody there knows of it."""
    with posted_to() as receiver:
        made, duty = telling(receiver, "pagerduty"), Duty()
        made.tell("fired", "north", "south")
        made.drain()
        made.tell("cleared", "north")
        made.drain()

        def acknowledged(number):
            made.service.standing.feed.acknowledge("visits", number, "alice")
            made.delivery.acknowledged(number)

        receiver.troubles[:] = ["drops", 204, 500]
        acknowledged(1)
        made.drain()
        acknowledged(1)
        made.tell("cleared", "south")
        made.tell("fired", "east")
        acknowledged(3 + 1)
        made.drain()
        for _, body in receiver.taken:
            duty.take(body)
        assert (duty.open, set(duty.cared)) == ({}, {"south"})
        events = [json.loads(body) for _, body in receiver.taken]
        assert not any(each["payload"].get("group") == "east" for each in events)
        keys = {each["dedup_key"] for each in events}
        assert keys == set(duty.opened)


def test_what_is_acknowledged_while_it_was_taken_in_part_is_so_for_that_part(telling):
    with posted_to() as receiver:
        made, duty, receiver.troubles[:] = telling(receiver, "pagerduty"), Duty(), [204, 500]
        made.tell("fired", "north", "south")
        made.delivery.tick()
        made.service.standing.feed.acknowledge("visits", 1, "alice")
        made.delivery.acknowledged(1)
        made.drain()
        for _, body in receiver.taken:
            duty.take(body)
        assert duty.cared == ["north"]


def test_no_redirect_is_followed(telling):
    with posted_to() as receiver, posted_to() as elsewhere:
        made, receiver.troubles[:], receiver.elsewhere = telling(receiver), [307, 308], elsewhere.url
        made.tell("fired")
        made.drain()
        assert (len(receiver.taken), elsewhere.taken) == (1, [])


def test_what_clears_in_a_silence_closes_what_was_opened_before(telling):
    with posted_to() as receiver:
        made, duty = telling(receiver, "pagerduty"), Duty()
        made.tell("fired", "north")
        made.service.standing.book.silence(made.standing.standing, made.clock[0] + 1e9)
        made.tell("fired", "south")
        made.tell("cleared", "south")
        made.tell("cleared", "north")
        made.drain()
        for _, body in receiver.taken:
            duty.take(body)
        assert (len(duty.opened), duty.open, len(receiver.taken)) == (1, {}, 2)


def test_other_news_are_incidents_of_their_own(telling):
    """Also where the number of one is the version of another."""
    with posted_to() as receiver:
        made = telling(receiver, "pagerduty")
        for kind, version in (("fired", 1), ("failing", 1), ("running out", 0), ("ended", 0), ("hit", 5), ("fired", 5)):
            made.tell(kind, version=version)
        made.drain()
        assert len({json.loads(body)["dedup_key"] for _, body in receiver.taken}) == 6


def test_what_was_taken_of_many_groups_is_not_sent_again_while_it_goes_on(telling):
    with posted_to() as receiver:
        made, receiver.troubles[:] = telling(receiver, "pagerduty"), [204, 204, 429, 204, 429]
        made.tell("fired", "a", "b", "c", "d")
        made.drain()
        assert [json.loads(body)["payload"]["group"] for _, body in receiver.taken] == ["a", "b", "c", "d"]


def test_nothing_clears_before_it_fired_and_other_news_do_not_wait(telling):
    with posted_to() as receiver:
        made, receiver.troubles[:] = telling(receiver), [500]
        for kind in ("fired", "cleared", "running out"):
            made.tell(kind)
        made.delivery.tick()
        made.drain()
        kinds = [json.loads(body)["kind"] for _, body in receiver.taken]
        assert kinds == ["running out", "fired", "cleared"]


def test_what_was_never_taken_is_given_up_and_counted(telling, monkeypatch):
    monkeypatch.setattr(delivery, "_TRIES", 3)
    with posted_to() as receiver:
        made = telling(receiver)
    made.tell("fired")
    made.tell("cleared")
    found = []
    for _ in range(8):
        made.pass_time()
        found.append(made.delivery.waiting()["ops"])
    assert found == [(2, 0)] * 3 + [(1, 1)] + [(1, 1)] * 3 + [(0, 2)]


def test_what_waits_for_a_receiver_that_is_not_there_any_more_is_given_up(telling, tmp_path):
    with posted_to() as receiver:
        made = telling(receiver)
        made.tell("fired")
        other = Delivery(service_at(tmp_path).config, made.service.store, lambda: made.clock[0])
        assert other.tick() == 0
        assert other.waiting() == {"ops": (0, 1)}
        assert receiver.taken == []


def test_tries_last_three_days():
    """As many as there are, each as long after the one before as is said."""
    pauses = [delivery._pause(tried) for tried in range(delivery._TRIES)]
    assert sum(pauses[:-1]) == pytest.approx(3 * 86_400, rel=0.01)


def test_two_processes_send_each_once(telling):
    with posted_to() as receiver:
        made = telling(receiver)
        for _ in range(40):
            made.tell("hit")
        other = made.another()
        threads = [threading.Thread(target=each.tick) for each in (made.delivery, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made.delivery.tick()
        numbers = [json.loads(body)["number"] for _, body in receiver.taken]
        assert sorted(numbers) == list(range(1, 41))


def test_one_that_died_after_it_was_taken_sends_it_again_under_its_identity(telling, monkeypatch):
    with posted_to() as receiver:
        made = telling(receiver)
        made.tell("fired")
        with monkeypatch.context() as dying:
            dying.setattr(Delivery, "_since", lambda *_: {})
            dying.setattr(delivery.Hook, "take", taken_and_killed(delivery.Hook.take))
            assert made.delivery.tick() == 0
        made.delivery = made.another()
        made.drain()
        assert len({identity_of("generic", *each) for each in receiver.taken}) == 1
        assert len(receiver.taken) == 2


def taken_and_killed(take):
    def dies(*said):
        take(*said)
        raise RuntimeError("killed")

    return dies


def test_one_that_hangs_holds_up_no_other_one(tmp_path, monkeypatch):
    monkeypatch.setattr(delivery, "_SECONDS", 60)
    (tmp_path / "secret").write_bytes(SECRET)
    with posted_to() as slow, posted_to() as quick:
        slow.troubles[:] = ["waits"]
        places = {name: {"url": each.url, "secret-file": "secret"} for name, each in (("a", slow), ("b", quick))}
        service = service_at(tmp_path, webhook=places)
        who = service.tokens.recognise(token_of(service))
        for name in places:
            terms = {"every": "append", "share": 1, "tell": "hits", "webhook": name}
            standing = service.standing.book.add(who, "visits", Wish("question", {}, 1), 0, **terms)
            service.standing.feed.add(standing, News("hit", 2, 9, ""))
        sent = service.delivery.begin()
        done, waiting = wait(sent, return_when=FIRST_COMPLETED)
        assert ([each.result() for each in done], len(waiting), len(quick.taken)) == ([1], 1, 1)
        assert service.delivery.close(0) == 1
        slow.may.set()
        assert service.delivery.close(60) == 0
        assert service.delivery.waiting() == {"a": (0, 0), "b": (0, 0)}
        assert service.delivery.begin() == []
        service.store.close()


# Mail.

CRITICAL = {"severity": "critical", "note": "evening peak"}


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A certificate of 127.0.0.1 that nobody knows yet, and what a server shows of it."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    folder, key = tmp_path_factory.mktemp("certified"), ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")]), datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(here, critical=False).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "certificate").write_bytes(pem)
    (folder / "key").write_bytes(key.private_bytes(*private))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate", folder / "key")
    return context, folder / "certificate"


def read(mail):
    return email.message_from_bytes(mail[2], policy=email.policy.default)


def test_a_mail_says_what_happened_and_comes_again_under_its_identity(mailing):
    with mailed_to() as server:
        made, server.troubles[:] = mailing(server), [451, "drops"]
        made.tell("fired", "north", **CRITICAL)
        made.drain()
        assert len(server.taken) == 2
        first, again = map(read, server.taken)
        assert first["Message-ID"] == again["Message-ID"] == f"<chary.{made.standing.standing}.1@example.org>"
        assert first["Subject"] == "[critical] visits: evening peak: fired for north"
        assert (first["From"], first["To"]) == ("chary@example.org", "ops@example.org")
        assert (first["Date"].datetime.utcoffset(), first["Auto-Submitted"]) == (datetime.timedelta(), "auto-generated")
        assert server.taken[0][:2] == ("chary@example.org", ["ops@example.org"])
        told = first.get_content()
        assert "call with the answer: 9" in told
        assert "value" not in told


@pytest.mark.parametrize("note", HOSTILE, ids=range(len(HOSTILE)))
def test_no_note_writes_a_header(mailing, note):
    with mailed_to() as server:
        made = mailing(server)
        made.tell("fired", note or "g", severity="info", note=note, detail=note)
        made.drain()
        (mail,) = map(read, server.taken)
        assert sorted(mail.keys()) == sorted({
            "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "MIME-Version",
            "Content-Transfer-Encoding",
        })  # fmt: skip
        assert mail.defects == []
        assert len(mail["Subject"]) <= 200
        assert server.taken[0][1] == ["ops@example.org"]
        assert len(server.taken[0][2]) < 30_000
        assert all(len(line) <= 998 for line in server.taken[0][2].split(b"\r\n"))
        if note.startswith("Über"):
            assert note in mail["Subject"]
            assert note in mail.get_content()


def test_a_receiver_that_the_server_refuses_keeps_it_from_no_other_one(mailing, caplog):
    with mailed_to() as server:
        made, server.troubles[:] = mailing(server, to=["gone@example.org", "ops@example.org"]), ["gone@example.org"]
        made.tell("fired")
        made.drain()
        assert [each[1] for each in server.taken] == [["ops@example.org"]]
        assert "gone" not in caplog.text
        assert '"refused": 1, "of": 2' in caplog.text
        made.tell("cleared")
        server.troubles[:] = ["gone@example.org", "ops@example.org"]
        assert made.delivery.tick() == 0
        server.troubles.clear()
        made.drain()
        assert len(server.taken) == 2


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_a_mail_goes_over_tls_to_who_is_who_they_say(mailing, certified, tls, tmp_path, monkeypatch, caplog):
    context, known = certified
    (tmp_path / "password").write_text("opensesame")
    with caplog.at_level(logging.DEBUG), mailed_to(tls=tls, context=context, user=("chary", "opensesame")) as server:
        made = mailing(server, user="chary", **{"password-file": "password"})
        made.tell("fired")
        assert made.delivery.tick() == 0
        assert not any(line.startswith(("AUTH", "MAIL")) for line in server.commands)
        monkeypatch.setenv("SSL_CERT_FILE", str(known))
        made.drain()
        assert len(server.taken) == 1
        assert "opensesame" not in caplog.text


def test_without_starttls_and_with_a_wrong_password_nothing_is_sent(mailing, tmp_path):
    (tmp_path / "password").write_text("wrong")
    with mailed_to(user=("chary", "right")) as server:
        for said in ({"tls": "starttls"}, {"user": "chary", "password-file": "password"}):
            made = mailing(server, **said)
            made.tell("fired")
            assert made.delivery.tick() == 0
            assert made.delivery.waiting()["ops"][0]
        assert server.taken == []


def test_secrets_are_in_no_line_of_the_log(telling, caplog):
    with posted_to() as receiver, caplog.at_level(logging.DEBUG, logger="chary"):
        for form in FORMS:
            made = telling(receiver, form)
            receiver.troubles[:] = [500, "drops"]
            made.tell("fired")
            made.drain()
    kept = "".join(record.getMessage() for record in caplog.records if record.name.startswith("chary"))
    for secret in (SECRET.decode(), ROUTING.decode(), "T000"):
        assert secret not in kept


# What a chary.toml says of receivers.

MAIL = "[service.mail.ops]\nhost = 'h'\nfrom = 'a@b.c'\nto = ['a@b.c']\n"
SIGNED_IN = {"password-file": "kept", "user": "u", "host": "h", "from": "a@b.c", "to": ["a@b.c"]}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("[service.webhook.ops]\nurl = 'https://x'", "service.webhook.ops: secret-file is missing"),
        ("[service.webhook.ops]\nsecret-file = 'x'", "service.webhook.ops: url is missing"),
        ("[service.webhook.ops]\nform = 'teams'", "service.webhook.ops.form: .*'slack' or 'pagerduty'"),
        ("[service.webhook.ops]\nform = 'slack'", "a url, or a secret-file"),
        ("[service.webhook.ops]\nform = 'slack'\nurl = 'https://x'\nsecret-file = 'x'", "a url, or a secret-file"),
        ("[service.webhook.ops]\nform = 'pagerduty'", "secret-file is missing"),
        ("[service.mail.ops]\nhost = 'h'\nto = ['a@b.c']", "service.mail.ops.from: field required"),
        ("[service.mail.ops]\nhost = 'h'\nfrom = 'x'\nto = ['a@b.c']", "service.mail.ops.from: .*ops@example.org"),
        ("[service.mail.ops]\nhost = 'h'\nfrom = 'O <a@b.c>'\nto = ['a@b.c']", "service.mail.ops.from"),
        ('[service.mail.ops]\nhost = "h"\nfrom = "a@b.c\\r\\nBcc: d@e.f"\nto = ["a@b.c"]', "service.mail.ops.from"),
        ("[service.mail.ops]\nhost = 'h'\nfrom = 'a@b.c'\nto = []", "service.mail.ops.to"),
        ("[service.mail.ops]\nhost = 'h\\nx'\nfrom = 'a@b.c'\nto = ['a@b.c']", "service.mail.ops.host"),
        (f"{MAIL}user = 'u'", "user and password-file"),
        (f"{MAIL}tls = 'none'\nuser = 'u'\npassword-file = 'p'", "goes over TLS"),
        (f"{MAIL}[service.webhook.ops]\nform = 'slack'\nurl = 'https://x'", "ops names a webhook and a mail"),
    ],
)
def test_what_a_receiver_cannot_be_is_named(tmp_path, said, words):
    (tmp_path / "chary.toml").write_text(said)
    with pytest.raises(InvalidParameter, match=words):
        service_config(tmp_path / "chary.toml")


@pytest.mark.parametrize(
    ("table", "said", "kept", "words"),
    [
        ("webhook", {"form": "slack", "secret-file": "kept"}, b"ftp://chat.example.org/secret/1234567", "with its URL"),
        ("webhook", {"form": "slack", "secret-file": "kept"}, b"https://chat.example.org/secret 1", "with its URL"),
        ("webhook", {"form": "pagerduty", "secret-file": "kept"}, b"0123456789 0123456789 012345", "one word"),
        ("webhook", {"form": "pagerduty", "secret-file": "kept"}, b"short", "at least 24 bytes"),
        ("mail", SIGNED_IN, b"", "password"),
        ("mail", SIGNED_IN, b"a\nb", "password"),
    ],
)
def test_a_secret_that_cannot_be_one_is_refused_before_anything_listens(tmp_path, table, said, kept, words):
    (tmp_path / "kept").write_bytes(kept)
    config = configured({"folder": tmp_path, "service": {table: {"ops": said}}, "dataset": {}}, "a test")
    with pytest.raises(InvalidParameter, match=words) as refused:
        opened_service(config)
    assert not kept or kept.decode() not in str(refused.value)
    assert not (tmp_path / "chary-service.db").exists()


# More of them by `KILLS=50 pytest ...`.
KILLS = int(os.environ.get("KILLS", "2"))


def test_processes_that_are_killed_lose_nothing_and_tell_nothing_twice(telling, tmp_path):
    """Two at a time, at random moments, while groups fire and clear and the receiver has its troubles."""
    drawn, active, episodes = random.Random(7), set(), 0
    with posted_to() as receiver:
        made, duty = telling(receiver, "pagerduty"), Duty()
        receiver.troubles += drawn.choices([204, 500, "drops"], [6, 1, 1], k=40)
        for _ in range(KILLS):
            children = [Python("-m", "tests.service.sending_child", tmp_path, receiver.url) for _ in range(2)]
            assert children[0].stdout.readline() == "begun\n"
            for _ in range(6):
                changed = {each for each in ("north", "south", "east") if drawn.random() < 0.5}
                version = next(made.versions)
                for kind, groups in (("cleared", changed & active), ("fired", changed - active)):
                    if groups:
                        made.tell(kind, *sorted(groups), version=version)
                active, episodes = active ^ changed, episodes + len(changed - active)
                time.sleep(drawn.random() * 0.05)
            for child in children:
                child.kill()
                child.communicate()
        made.clock[0] *= 50
        made.drain()
        for _, body in receiver.taken:
            duty.take(body)
    assert sorted(duty.open.values()) == sorted(active)
    assert (len(duty.opened), len(set(duty.opened))) == (episodes, episodes)
