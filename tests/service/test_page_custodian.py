"""The custodian's page: rows, caps, tokens; for custodians alone, from its own forms alone, without data in words."""

import re
import time
from types import SimpleNamespace

import pytest

import chary
from chary import count
from chary.errors import OwnerWarning
from chary.service.auth.tokens import Role
from chary.service.config import configured
from chary.service.http.admission import Asking
from chary.service.pages.custodian import analysts_capped, backup_commands
from chary.service.pages.frame import form_parts
from tests.service.kit import serve_dataset, serve_visits, service_at, token_of
from tests.service.page_kit import fields_of
from tests.session.kit import PUBLIC, SECRET_NAME, USUAL

PLACE = "/page/datasets/{}/custodian"


@pytest.fixture(scope="module")
def carol(arriving):
    return arriving("carol", ["custodian"], ["visits", "csv"])


def place(dataset="visits", *parts):
    return "/".join([PLACE.format(dataset), *parts])


def upload(visitor, text, **fields):
    """The form with a file, as browsers send it."""
    said = {"form_token": visitor.form_token(), "key": "page 1"} | fields
    return visitor.http.post(place("csv", "rows"), data=said, files={"rows": ("rows.csv", text, "text/csv")})


@pytest.fixture(scope="module")
def grown(service, tmp_path_factory):
    file = tmp_path_factory.mktemp("csv") / "visits.csv"
    file.write_text("clinic,age\nnorth,44\n")
    session = chary.open(str(file), columns={"age": "BIGINT"}, **PUBLIC, budget=USUAL, ledger=":memory:")
    serve_dataset(service, "csv", session)
    return session


def test_a_csv_is_appended_once_however_often_its_form_is_sent(carol, grown):
    for led in ("#rows", "?again=2#rows"):
        sent = upload(carol, "clinic,age\nsouth,50\neast,51\n")
        assert (sent.status_code, sent.headers["location"]) == (303, place("csv") + led)
        assert grown.size == 3
    assert "sent before. Its rows are version 2" in carol.get(sent.headers["location"]).text
    assert upload(carol, "clinic,age\nsouth,50\n", key="page 2").status_code == 303
    assert ">4</td>" in carol.get(place("csv")).text
    assert 'name="key" value="page ' in carol.get(place("csv")).text


def test_cells_that_became_null_are_counted_once_and_in_no_address(carol, grown):
    with pytest.warns(OwnerWarning, match="column age: 1 of 2 cells are not BIGINT"):
        sent = upload(carol, "clinic,age\nsouth,old\neast,51\n", key="page cells")
    assert sent.status_code == 200
    assert "now NULL: <code>age</code> 1." in sent.text
    sent = upload(carol, "clinic,age\nsouth,old\neast,51\n", key="page cells")
    assert (sent.status_code, "again=" in sent.headers["location"]) == (303, True)
    assert "now NULL" not in carol.get(sent.headers["location"]).text


@pytest.mark.parametrize("text", [f"clinic\n{SECRET_NAME}\n", f"{SECRET_NAME},44\n", "", "clinic,age\n\0,\xff"])
def test_what_is_no_csv_of_these_rows_is_told_without_them(carol, grown, text):
    size = grown.size
    sent = upload(carol, text.encode("latin-1"), key="page wrong")
    if sent.status_code != 303:
        assert sent.status_code == 422
        assert 'aria-describedby="problem"' in sent.text
        assert SECRET_NAME not in sent.text
        assert "chary-rows" not in sent.text
        assert grown.size == size


def test_a_csv_of_many_lines_holds_nobody_up():
    """The parts of a form are read while nobody else is answered."""
    raw = b'--x\r\nContent-Disposition: form-data; name="rows"; filename="a"\r\n\r\n' + b"1,2\n" * 5_000_000
    began = time.process_time()
    (part,) = form_parts("multipart/form-data; boundary=x", raw + b"\r\n--x--\r\n")
    assert len(part.content) == 20_000_000
    assert time.process_time() - began < 1


def test_days_of_thousands_of_digits_are_refused(carol):
    sent = carol.post(place("visits", "tokens"), analyst="al", days="9" * 5_000, **{"role-analyst": "on"})
    assert (sent.status_code, "days must be" in sent.text) == (422, True)


def test_a_cap_is_set_and_shown(service, carol):
    sent = carol.post(place("visits", "caps"), analyst="alice", quota="0.25")
    assert (sent.status_code, sent.headers["location"]) == (303, place() + "#caps")
    assert service.datasets["visits"].asked_by("alice").remaining.share == pytest.approx(0.25)
    assert "25 %" in carol.get(place()).text
    refused = carol.post(place("visits", "caps"), analyst="<b>bob</b>", quota="2")
    assert refused.status_code == 422
    assert "a quota is a fraction of the budget, from 0 to 1" in refused.text
    assert 'value="&lt;b&gt;bob&lt;/b&gt;"' in refused.text
    assert "<b>bob</b>" not in refused.text
    assert fields_of(refused.text, place("visits", "caps"))["quota"] == "2"


def test_shares_of_analysts_are_of_the_account_that_lives(tmp_path):
    service = service_at(tmp_path)
    serve_visits(service)
    served = service.datasets["visits"]
    served.asked_by("alice").release(count(), epsilon="0.8")
    served.asked_by("bob").release(count(), epsilon="0.1")
    on = Asking(service.tokens.recognise(token_of(service, "carol", ["custodian"])), served)
    taken = {each.analyst: each.charged for each in analysts_capped(service, on)}
    assert (taken["alice"], taken["bob"]) == (pytest.approx(0.8), pytest.approx(0.1))
    assert served.session.spent.share == pytest.approx(0.9)
    service.jobs.close(5)
    service.datasets.close()
    service.store.close()


def test_a_token_is_shown_once_and_out_at_once_when_it_is_revoked(arriving, carol):
    made = carol.post(place("visits", "tokens"), analyst="dora", days="3", **{"role-reader": "on"})
    token = re.search(r"chary_[0-9a-f]{16}_[\w-]+", made.text)[0]
    assert token not in carol.get(place()).text
    dora = arriving(token=token)
    assert dora.get("/page/datasets/visits/budget").status_code == 200
    assert dora.get(place()).status_code == 403
    name = token.split("_")[1]
    assert carol.post(place("visits", "tokens", name, "revoke")).status_code == 303
    assert dora.get("/page/datasets/visits/budget").headers["location"].startswith("/page/log-in")
    assert carol.post(place("visits", "tokens", "0" * 16, "revoke")).status_code == 404


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"analyst": "dora", "days": "3"}, "roles"),
        ({"analyst": "dora", "days": "many", "role-reader": "on"}, "days"),
        ({"analyst": "", "days": "3", "role-reader": "on"}, "analyst"),
    ],
)
def test_a_token_that_cannot_be_is_refused_in_words(service, carol, fields, told):
    before = len(service.tokens.all())
    sent = carol.post(place("visits", "tokens"), **fields)
    assert (sent.status_code, len(service.tokens.all())) == (422, before)
    assert told in re.search(r'role="alert" id="problem">(.*?)</div>', sent.text, re.DOTALL)[1]


def test_nobody_makes_or_ends_tokens_beyond_ones_own_datasets(service, carol):
    serve_visits(service, "others")
    everywhere = token_of(service, "max", ["custodian"])
    assert carol.get(place("others")).status_code == 404
    assert carol.post(place("visits", "tokens", everywhere.split("_")[1], "revoke")).status_code == 404
    assert f"{everywhere.split('_')[1]}/revoke" not in carol.get(place()).text


@pytest.mark.parametrize("role", [Role.ANALYST, Role.READER])
def test_only_custodians_may(service, arriving, role):
    visitor = arriving("al", [role])
    tokens = len(service.tokens.all())
    assert visitor.get(place()).status_code == 403
    for parts in (("rows",), ("caps",), ("tokens",), ("tokens", "0" * 16, "revoke")):
        assert (
            visitor.post(
                place("visits", *parts), analyst="al", quota="1", days="1", **{"role-custodian": "on"}
            ).status_code
            == 403
        )
    assert len(service.tokens.all()) == tokens


@pytest.mark.parametrize(("origin", "form_token"), [("http://evil.example", True), ("", True), (None, False)])
def test_posts_of_other_sites_do_nothing(service, address, carol, origin, form_token):
    headers = {} if origin is None else {"Origin": origin}
    said = {"analyst": "bob", "quota": "0.01"} | ({"form_token": carol.form_token()} if form_token else {})
    assert carol.http.post(place("visits", "caps"), data=said, headers=headers).status_code == 403
    assert service.datasets["visits"].asked_by("bob").remaining.share == 1


def test_how_a_ledger_is_copied_is_told_without_passwords(tmp_path):
    said = {"file": "visits.csv", "row-level": True, "budget-epsilon": 1}
    places = {"kept in files": "visits.ledger", "kept elsewhere": "postgresql://chary:pass-word@db/ledgers"}
    told = {"folder": tmp_path, "service": {}, "dataset": {name: said | {"ledger": at} for name, at in places.items()}}
    service = SimpleNamespace(config=configured(told, "a test"))
    files, elsewhere = (backup_commands(service, SimpleNamespace(served=SimpleNamespace(name=name))) for name in places)
    assert files == ["chary ledger backup visits.ledger COPY.ledger", "sqlite3 chary-service.db '.backup COPY.db'"]
    assert elsewhere == ["pg_dump --format=custom --file=COPY DATABASE", files[1]]
