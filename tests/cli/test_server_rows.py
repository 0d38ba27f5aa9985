"""Commands on a table of a server: a URL in place of a file."""

import json

import pytest


@pytest.fixture
def url(postgres, postgres_url):
    name = postgres_url.split("@/")[1].split("?")[0]
    rows = "SELECT n, n % 40 AS patient, 20 + n % 60 AS age FROM generate_series(1, 400) AS n"
    postgres.execute(f"CREATE TABLE visits AS {rows}", name)
    return postgres_url


ASKED = ("--table", "visits", "--unit", "patient", "--count", "--where", "age >= 65")


def test_a_url_is_asked_like_a_file(call, url, tmp_path):
    kept = ("--ledger", str(tmp_path / "visits.ledger"))
    first = call("release", url, *ASKED, *kept, "--budget-epsilon", "1", "--budget-delta", "1e-6", "--epsilon", "0.2")
    assert (first[0], first[2]) == (0, "")
    assert url not in first[1]
    again = call("release", url, *ASKED, *kept, "--epsilon", "0.05")
    assert (again[0], again[2]) == (0, "")


@pytest.mark.parametrize(
    ("more", "says"), [((), "--ledger visits.ledger"), (("--ledger", "l"), "a new ledger needs a budget")]
)
def test_what_is_missing_is_said_before_the_server_is_asked(call, more, says):
    code, _, told = call("release", "postgresql://ann:SECRET@db.invalid/clinic", *ASKED, *more, "--epsilon", "0.2")
    assert code != 0
    assert says in " ".join(told.split())
    assert "SECRET" not in told


def test_a_url_is_kept_in_a_chary_toml_without_a_password(call, url, tmp_path):
    code, _, told = call("init", "postgresql://ann:SECRET@db.invalid/clinic", "--table", "visits", "--unit", "patient")
    assert code != 0
    assert "SECRET" not in told
    plan = ("--ledger", "visits.ledger", "--budget-epsilon", "1", "--budget-delta", "1e-6")
    code, _, told = call("init", url, "--table", "visits", "--unit", "patient", *plan)
    assert (code, told) == (0, "")
    name = next(line for line in (tmp_path / "chary.toml").read_text().splitlines() if line.startswith("[dataset"))
    code, _, told = call("release", name.split('"')[1], "--count", "--epsilon", "0.2")
    assert (code, told) == (0, "")


def test_a_table_of_a_server_takes_each_batch_once(call, url, tmp_path, postgres, postgres_url):
    (tmp_path / "more.csv").write_text("n,patient,age\n401,7,80\n")
    plan = ("--table", "visits", "--unit", "patient", "--budget-epsilon", "1", "--ledger", "visits.ledger", "--json")
    found = [json.loads(call("append", url, "more.csv", *plan)[1]) for _ in range(2)]
    assert [told["appended"][0]["new"] for told in found] == [True, False]
    name = postgres_url.split("@/")[1].split("?")[0]
    assert postgres.execute("SELECT count(*) FROM visits", name) == [(401,)]
    (tmp_path / "visits.ledger").unlink()
    plan = ("--table", "visits", "--unit", "patient", "--budget-epsilon", "1", "--ledger", "visits.ledger")
    code, _, told = call("release", url, *plan, "--count", "--epsilon", "0.2")
    assert (code, "1 batch was appended under a ledger, and this one is new" in told) == (0, True)
