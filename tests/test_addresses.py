"""A file or a server, for rows, ledgers and the service's store alike; no password is ever shown."""

from pathlib import Path

import pytest

from chary.addresses import Address, file_of, is_server, place_of, without_password
from chary.cli import run
from chary.errors import InvalidParameter
from chary.service.store import ServiceStore

REFUSED = [
    "postgresql://",
    "postgresql:///",
    "postgresql://host/base?schema=Upper",
    "postgresql://host/base?schema=a-b",
    "postgresql://host/base?schema=pg_x",
    "postgresql://host:port/base",
    "mysql://host/base",
]


@pytest.mark.parametrize("url", [*REFUSED, "postgresql://host/base?schema=public"])
def test_other_urls_are_no_schema_of_a_server(url):
    with pytest.raises(InvalidParameter):
        Address.parse(url)


@pytest.mark.parametrize("url", REFUSED)
def test_other_urls_are_no_store(url):
    with pytest.raises(InvalidParameter):
        ServiceStore(url)


def test_a_store_may_be_in_the_schema_that_all_share():
    assert Address.parse("postgresql://host/base?schema=public", public=True).schema == "public"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_name_of_a_server_is_one(scheme):
    place = f"{scheme}://ann@host/base"
    assert is_server(place)
    assert place_of(place) == place
    assert Address.parse(place).shown == "postgresql://ann@host/base"
    assert not is_server(scheme)
    assert not is_server(f"file {place}")


def test_a_file_is_named_by_its_path_or_its_url(tmp_path):
    assert place_of(f"sqlite:///{tmp_path}/a.ledger") == place_of(f"{tmp_path}/a.ledger") == tmp_path / "a.ledger"
    assert file_of("a#b?c.ledger") == Path("a#b?c.ledger")
    with pytest.raises(InvalidParameter, match="NUL"):
        file_of("a\0b")


def test_a_password_is_in_no_representation():
    address = Address.parse("postgresql://ann:pw4711@host/base?sslmode=require&password=pw4711")
    assert "4711" not in f"{address!r} {address} {address.shown}"
    assert address.options["password"] == "pw4711"


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("postgresql://ann:pw4711@host/base", "postgresql://ann@host/base"),
        ("postgresql://ann:p@w/4711@host/base", "postgresql://ann@host/base"),
        ("postgresql://ann:p?w4711@host/base", "postgresql://ann@host/base"),
        ("postgresql://ann@host/base?password=pw4711&schema=a", "postgresql://ann@host/base?password=&schema=a"),
        ("postgresql://host:5432/base?schema=a", "postgresql://host:5432/base?schema=a"),
        ("a:b@c visits.csv", "a:b@c visits.csv"),
    ],
)
def test_a_password_is_hidden_in_what_is_shown(typed, shown):
    assert without_password(typed) == shown


URL = "postgresql://ann:pw4711@127.0.0.1:1/base?schema=visits"


@pytest.mark.parametrize(
    "line",
    [
        ["test", URL, "--count", "--above", "3", "--row-level"],
        ["report", URL, "--output", "report.txt"],
        ["report", URL],
        ["advise", URL, "--hits", "3", "--tests", "9"],
        ["ledger", "head", URL],
        ["init", "postgresql://ann@127.0.0.1:1/base?password=pw4711", "--unit", "patient"],
        ["release", URL.partition("?")[0], "--table", "visits", "--count", "--row-level", "--ledger", "visits.ledger"],
    ],
)
def test_no_refusal_of_a_command_shows_a_password(line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(line) == 2
    told = capsys.readouterr()
    assert "4711" not in told.out + told.err
    assert not Path("chary.toml").exists()
