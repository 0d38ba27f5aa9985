"""Views: those that choose rows and columns of one table without a function that may fail."""

import pytest

from chary.data import count
from chary.errors import SchemaMismatch

TABLE = "CREATE TABLE visits (n bigint, patient int, name text, day date, sure boolean)"
ALLOWED = [
    "SELECT * FROM visits",
    "SELECT n, patient FROM visits WHERE patient = 3 AND n > 0",
    "SELECT n, name AS other FROM visits WHERE name IN ('a', 'b') OR NOT sure OR day >= '2020-01-01'",
    "SELECT n FROM visits WHERE name IS NOT NULL AND name <> 'x'",
    "SELECT coalesce(n, 0) AS n, CASE WHEN sure THEN 1 ELSE 2 END AS k FROM visits",
]
REFUSED = [
    ("SELECT n FROM visits WHERE random() < 0.5", "volatile"),
    ("SELECT nextval('numbers') AS n FROM visits", "volatile"),
    ("SELECT n, clock_timestamp() AS at FROM visits", "volatile"),
    ("SELECT 1 / n AS n FROM visits", "may make fail"),
    ("SELECT n + 1 AS n FROM visits", "may make fail"),
    ("SELECT name::int AS n FROM visits", "more than choose"),
    ("SELECT own(n) AS n FROM visits", "may make fail"),
    ("SELECT count(*) AS n FROM visits", "more than choose"),
    ("SELECT DISTINCT n FROM visits", "more than choose"),
    ("SELECT n FROM visits ORDER BY n LIMIT 3", "more than choose"),
    ("SELECT n FROM visits GROUP BY n", "more than choose"),
    ("SELECT 5 AS n FROM visits HAVING true", "more than choose"),
    ("SELECT n FROM visits UNION ALL SELECT n FROM visits", "more than choose"),
    ("SELECT v.n FROM visits v JOIN visits w ON v.n = w.n", "more than choose"),
    ("SELECT n FROM visits TABLESAMPLE BERNOULLI (50)", "more than choose"),
    ("SELECT n, row_number() OVER () AS k FROM visits", "more than choose"),
    ("SELECT n FROM visits WHERE n = (SELECT max(n) FROM visits)", "more than choose"),
    ("SELECT generate_series(1, 3) AS n FROM visits", "may make fail"),
    ("SELECT n, current_user AS u FROM visits", "more than choose"),
    ("SELECT 5 AS n", "more than choose"),
]


@pytest.fixture
def view(clinic, opened):
    clinic.run(TABLE, "INSERT INTO visits VALUES (5, 3, 'a', '2020-01-01', false)", "CREATE SEQUENCE numbers")
    clinic.run("CREATE FUNCTION own(bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT $1'")

    def made(sql, name="chosen"):
        clinic.run(f"CREATE VIEW {name} AS {sql}")
        clinic.grant(name)
        return opened(name)

    return made


@pytest.mark.parametrize("sql", ALLOWED)
def test_views_of_rows_are_read_without_a_right_to_the_table(view, sql):
    assert view(sql).prepare(count("n = 5")).run() == 1


@pytest.mark.parametrize(("sql", "why"), REFUSED)
def test_views_that_compute_are_refused(view, sql, why):
    with pytest.raises(SchemaMismatch, match=why):
        view(sql)


def test_a_view_of_a_view_is_as_good_as_both(clinic, view):
    clinic.run("CREATE VIEW below AS SELECT * FROM visits", "CREATE VIEW odd AS SELECT n + 1 AS n FROM visits")
    assert view("SELECT n FROM below").prepare(count()).run() == 1
    with pytest.raises(SchemaMismatch, match="may make fail"):
        view("SELECT n FROM odd", "second")
    clinic.run("ALTER TABLE visits ENABLE ROW LEVEL SECURITY")
    with pytest.raises(SchemaMismatch, match="row level security"):
        view("SELECT n FROM below", "third")
