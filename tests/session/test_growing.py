"""Versions of growing datasets: one for each batch, with sizes where they are public."""

import threading

import duckdb
import pandas as pd
import pytest

import chary
from chary import Budget, EngineError, InvalidParameter, InvalidQuery, LedgerLocked, LedgerMismatch, SchemaMismatch
from chary.calls import Alert
from chary.ledger import Ledger, open_ledger
from tests.session.kit import NO_NOISE, PLENTY, PUBLIC, error_texts, recorded, shows_data, spent, visits

MORE = visits().head(7)


def told(session):
    return [(version.number, version.kind, version.size, version.request) for version in session.versions]


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", visits())
        connection.execute("CREATE TABLE visits AS FROM rows")
    return {"rows": path, "table": "visits", "ledger": tmp_path / "visits.ledger", "dataset": "visits"}


def test_a_public_stream_has_sizes(opened, place):
    session = opened(ledger=place, budget=NO_NOISE, **PUBLIC)
    assert session.size == 120
    assert [session.append(MORE), session.append(MORE.head(0), request="empty"), session.append(MORE)] == [2, 3, 4]
    assert told(session) == [
        (1, "found", 120, None),
        (2, "append", 127, None),
        (3, "append", 127, "empty"),
        (4, "append", 134, None),
    ]
    assert session.size == session.release(chary.count(), epsilon=PLENTY).value == 134
    times = [version.time for version in session.versions]
    assert times == sorted(times)


@pytest.mark.parametrize("whose", [{}, {"neighbors": "replace"}, {"privacy_unit": None}])
def test_where_the_size_is_secret_nothing_tells_it(opened, whose):
    session = opened(**whose)
    session.append(MORE)
    assert told(session) == [(1, "append", None, None)]
    with pytest.raises(InvalidQuery) as refusal:
        _ = session.size
    exported = str([(entry["body"], entry["answer"]) for entry in session.spine.ledger.export("data")])
    assert all(number not in exported + str(refusal.value) for number in ("120", "127"))


def test_the_same_key_brings_its_rows_once(opened):
    session = opened(**PUBLIC)
    versions = [session.append(MORE, request=key) for key in ("mon", "tue", "mon", "tue", "wed")]
    assert versions == [2, 3, 2, 3, 4]
    assert session.size == 141
    for bad in ("", "a\0", 7):
        with pytest.raises(InvalidParameter):
            session.append(MORE, request=bad)
    assert session.size == 141


def test_rows_of_a_file_stay_with_their_versions(opened, stored):
    first = opened(**stored, **PUBLIC)
    assert first.append(MORE, request="mon") == 2
    before = told(first)
    first.close()
    again = opened(**stored, **PUBLIC)
    assert (told(again), again.size) == (before, 127)
    assert again.append(MORE, request="mon") == 2
    assert again.append(MORE, request="tue") == 3
    assert again.size == 134


def test_a_repeated_batch_is_known_among_later_ones(opened, stored):
    """Also when other rows were found in between, so that batches and versions are numbered differently."""
    session = opened(**stored, **PUBLIC)
    assert session.append(MORE, request="mon") == 2
    session.close()
    with duckdb.connect(str(stored["rows"])) as connection:
        connection.execute("INSERT INTO visits SELECT * FROM visits LIMIT 3")
    session = opened(**stored, **PUBLIC)
    assert told(session)[-1] == (3, "found", 130, None)
    assert [session.append(MORE, request=key) for key in ("tue", "mon", "tue")] == [4, 2, 4]
    assert session.size == 137


def test_two_ledgers_follow_one_file(opened, stored, tmp_path):
    public = stored | {"ledger": tmp_path / "public.ledger"}
    for _ in range(2):
        for options in (stored, public | PUBLIC):
            session = opened(**options)
            session.append(MORE)
            session.close()
    secret, open_ = opened(**stored), opened(**public, **PUBLIC)
    assert [version.size for version in secret.versions] == [None] * 4
    assert [version.size for version in open_.versions] == [127, 134, 141, 148]


def test_a_stream_that_shrank_is_refused(opened, stored):
    recorded(opened(**stored, **PUBLIC)).close()
    with duckdb.connect(str(stored["rows"])) as connection:
        connection.execute("DELETE FROM visits WHERE patient = 100")
    with pytest.raises(LedgerMismatch, match="never shrinks") as refusal:
        opened(**stored, **PUBLIC)
    assert not shows_data(error_texts(refusal.value))


def test_an_older_copy_of_a_file_is_refused_whatever_is_secret(opened, stored):
    copy = stored["rows"].read_bytes()
    session = opened(**stored)
    session.append(MORE)
    session.close()
    newer = stored["rows"].read_bytes()
    stored["rows"].write_bytes(copy)
    with pytest.raises(LedgerMismatch, match="older copy"):
        opened(**stored)
    stored["rows"].write_bytes(newer)
    assert len(opened(**stored).versions) == 1


def test_rows_of_a_session_must_come_along_next_time(opened, tmp_path):
    parts = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for part, rows in zip(parts, (visits(), MORE), strict=True):
        rows.to_csv(part, index=False)
    options = {"ledger": tmp_path / "a.ledger", "dataset": "a", "columns": {}, **PUBLIC}
    session = opened(parts[0], **options)
    session.append(parts[1])
    session.close()
    with pytest.raises(LedgerMismatch, match="appended in an earlier session"):
        opened(parts[0], **options)
    again = opened(parts, **options)
    assert told(again) == [(1, "found", 120, None), (2, "append", 127, None)]


def busy(*args, **options):
    raise LedgerLocked("busy")


@pytest.mark.parametrize("in_file", [False, True])
def test_a_batch_that_the_ledger_cannot_note_is_not_added_or_noted_later(opened, stored, in_file):
    ledger = open_ledger(":memory:")
    note = ledger.note
    session = opened(**((stored if in_file else {}) | {"ledger": ledger} | PUBLIC))
    recorded(session)
    ledger.note = busy
    with pytest.raises(LedgerLocked):
        session.append(MORE, request="mon")
    assert (session.size, len(session.versions)) == (127 if in_file else 120, 1)
    ledger.note = note
    assert session.append(MORE, request="mon") == 2
    assert (session.size, told(session)[1:]) == (127, [(2, "append", 127, None if in_file else "mon")])


def test_a_wrong_batch_changes_neither_rows_nor_versions(opened, stored):
    session = opened(**stored, **PUBLIC)
    for bad in (MORE.drop(columns="age"), MORE.assign(age="old"), MORE.assign(more=1)):
        with pytest.raises(SchemaMismatch):
            session.append(bad, request="mon")
    assert (session.size, len(session.versions), spent(session).main) == (120, 1, 0)
    assert session.append(MORE, request="mon") == 2


def test_threads_append_whole_batches(opened, stored):
    session = opened(**stored, **PUBLIC)
    failures = []

    def work(name):
        for number in range(5):
            try:
                session.append(MORE, request=f"{name} {number}")
            except EngineError as failure:  # pragma: no cover
                failures.append(failure)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [version.size for version in session.versions] == list(range(120, 120 + 15 * 7 + 1, 7))
    keys = {batch.request for batch in session.spine.rows.batches()}
    assert keys == {f"{a} {n}" for a in "abc" for n in range(5)}


def test_the_ledger_does_not_know_the_keys_of_a_file(opened, stored, tmp_path):
    """They may be made of what was appended, as hashes of contents are."""
    for _ in range(2):
        with opened(**stored, **PUBLIC) as session:
            assert [session.append(MORE, request="hash of contents") for _ in range(2)] == [2, 2]
            assert told(session)[1:] == [(2, "append", 127, None)]
    assert not any(b"hash of contents" in path.read_bytes() for path in tmp_path.glob("visits.ledger*"))


def test_a_path_is_appended_once_where_rows_stay(opened, stored, tmp_path):
    """A script that runs again would bring its rows twice, and that breaks guarantees."""
    file, other, link = (tmp_path / name for name in ("more.csv", "other.csv", "link.csv"))
    MORE.to_csv(file, index=False)
    other.write_bytes(file.read_bytes())
    link.symlink_to(file)
    with opened(**stored, **PUBLIC) as session:
        assert session.append(str(file)) == 2
        spent_before, sizes = session.spent, [version.size for version in session.versions]
        # The path decides, whatever is in the file by now.
        for again in (file, str(file), link):
            MORE.head(3).to_csv(file, index=False)
            with pytest.raises(InvalidParameter, match="was appended before: its rows are there as version 2"):
                session.append(again)
        assert (session.spent, [version.size for version in session.versions]) == (spent_before, sizes)
    with opened(**stored, **PUBLIC) as session:
        with pytest.raises(InvalidParameter, match="give it a key, such as request='week 12'"):
            session.append(file)
        # Equal rows from another path, under a key, or of a frame are other batches.
        assert [
            session.append(other),
            session.append(file, request="Monday"),
            session.append(file, request="Monday"),
        ] == [
            3,
            4,
            4,
        ]
        assert [session.append(MORE), session.append(MORE)] == [5, 6]
        assert session.size == 120 + 7 + 7 + 3 + 7 + 7
    assert not any(b"more.csv" in path.read_bytes() for path in tmp_path.glob("visits.ledger*"))


def test_a_path_whose_note_failed_is_completed_when_it_comes_again(opened, stored, tmp_path, monkeypatch):
    """The rows are there, and nobody learnt of them: the next append notes them and asks those that follow."""
    file = tmp_path / "more.csv"
    MORE.to_csv(file, index=False)
    with opened(**stored, **PUBLIC) as session:
        run = session.start(Alert(chary.count(), above=10**6, epsilon="0.01", below_margin=True), follow=True)

        def locked(*_, **__):
            raise LedgerLocked("somebody else writes")

        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "note", locked)
            with pytest.raises(LedgerLocked):
                session.append(file)
        asked = len(run.state.results)
        with pytest.raises(InvalidParameter, match="its rows are there as version 2, and nothing was added now"):
            session.append(file)
        assert ([version.size for version in session.versions], len(run.state.results)) == ([120, 127], asked + 1)


def test_a_file_may_come_twice_where_rows_live_in_memory(opened, tmp_path):
    file = tmp_path / "more.csv"
    MORE.to_csv(file, index=False)
    session = opened(**PUBLIC)
    assert [session.append(file), session.append(file)] == [2, 3]


def test_a_series_grows_by_public_steps(tmp_path):
    days = pd.DataFrame({"day": ["a", "b"], "n": [5, 6]})
    options = {"column": "n", "sensitivity": 1, "ledger": tmp_path / "n.ledger", "budget": Budget(epsilon=1)}
    with chary.open_counts(days, dataset="n", **options) as session:
        assert session.append(pd.DataFrame({"day": ["c"], "n": [7]})) == 2
        assert [version.size for version in session.versions] == [2, 3]
        with pytest.raises(InvalidParameter):
            session.append(days, request="mon")
    with pytest.raises(LedgerMismatch, match="never shrinks"):
        chary.open_counts(days, dataset="n", **options)


def test_appending_is_noted_once_by_every_ledger(opened, stored):
    recorded(opened(**stored, **PUBLIC)).close()
    ledger = open_ledger(stored["ledger"])
    entries = [(entry["kind"], entry["label"], entry["body"]) for entry in ledger.export("visits")]
    assert entries[1:-1] == [("note", "found", '{"size":120}')]
    ledger.close()
