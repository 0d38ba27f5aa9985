"""What was written once opens, verifies, tells what it told, answers what it answered for free, and goes on."""

import gzip
import json
from contextlib import chdir

import pytest

from chary import count
from chary.answers import Answer
from chary.client.wire import GONE, MERGED, TAGS, in_typed, of_typed
from chary.ledger import open_ledger
from chary.noise import Seeded
from chary.session import Quote
from tests.conformance.samples import EVERY, LATER
from tests.net import golden
from tests.net.kept import differences, told
from tests.service.kit import client_of

TOLD = golden.read_told()
WIRE = [json.loads(line) for line in gzip.decompress((golden.HERE / "wire.jsonl.gz").read_bytes()).splitlines()]


def lost(kept, found):
    """What was kept and is not found, or is another; later versions tell more, and new names are not compared."""
    return differences(kept, _named_alike(kept, found))


def _named_alike(kept, found):
    if isinstance(kept, dict) and isinstance(found, dict):
        return {name: _named_alike(each, found[name]) for name, each in kept.items() if name in found}
    if isinstance(kept, list) and isinstance(found, list) and len(kept) == len(found):
        return [_named_alike(one, other) for one, other in zip(kept, found, strict=True)]
    return found


def lasting(reads):
    """What a value always says: not a sentence in later words, nor that something could not be told then."""
    if not isinstance(reads, dict):
        return reads
    return {name: each for name, each in reads.items() if name != "interval_says" and each is not None}


@pytest.fixture(params=["file", "server"])
def kept(request, tmp_path):
    """Where ledgers lie, and what was told of them."""
    if request.param == "file":
        golden.unpack(tmp_path, *(f"{name}.ledger" for name in golden.LEDGERS))
        return (lambda name: tmp_path / f"{name}.ledger"), TOLD["ledgers"]
    postgres = request.getfixturevalue("postgres")
    made = postgres.database()
    golden.unpack(tmp_path, "server.sql")
    with postgres.connect(made) as connection:
        connection.execute((tmp_path / "server.sql").read_text())
    return (lambda name: postgres.url(made, schema=golden.SCHEMA)), TOLD["server"]


def test_ledgers_verify_tell_the_same_and_answer_every_key_for_free(kept):
    place, expected = kept
    for name, known in expected.items():
        opening, _ = golden.LEDGERS[name]
        with opening(ledger=place(name)) as session:
            assert golden.found(session) == {each: known[each] for each in golden.found(session)}
            assert golden.asked(session, known["sold"], "monday") == known["sold"]
            assert golden.found(session) == {each: known[each] for each in golden.found(session)}
        ledger = open_ledger(place(name))
        assert ledger.verify().ok
        assert all(call.price is None or call.price.fits_into(call.worst) for call in ledger.calls(name))
        ledger.close()


def test_every_recipe_goes_on(kept):
    place, expected = kept
    for name, known in expected.items():
        opening, _ = golden.LEDGERS[name]
        with opening(ledger=place(name), unsafe_noise=Seeded(3)) as session:
            for recipe in known["sold"][:: 1 if name in ("rows", "votes", "replaced") else 3]:
                EVERY[recipe](session, f"{recipe}, again")(f"tuesday, {recipe}")
            assert session.spine.ledger.verify().ok
            assert len(session.history) > len(known["calls"])


def test_every_recipe_is_kept():
    assert {recipe for known in TOLD["ledgers"].values() for recipe in known["sold"]} == set(EVERY) - set(LATER)


@pytest.mark.parametrize("name", golden.GROWN)
def test_rows_that_grew_have_their_versions_and_go_on(name, tmp_path):
    golden.unpack(tmp_path, "grown.duckdb", *(f"{place}.ledger" for place in golden.GROWN.values()))
    (tmp_path / "days").mkdir()
    for day in range(3):
        golden.one_day(tmp_path, day)
    with golden.open_grown(name, tmp_path, dataset="grown", unsafe_noise=Seeded(1)) as session:
        assert golden.found(session) == TOLD["grown"][name]
        golden.growing_asked(session)
        assert golden.found(session)["calls"] == TOLD["grown"][name]["calls"]
        session.append(golden.batch(3) if name == "a file" else golden.one_day(tmp_path, 3), request="day 3")
        assert session.spine.ledger.version("grown") == TOLD["grown"][name]["version"] + 1
        session.release(count(), epsilon="0.1")
        assert session.spine.ledger.verify().ok


@pytest.mark.parametrize("name", golden.COMMANDS)
def test_a_command_finds_what_it_opened_by_its_key(name, tmp_path):
    golden.unpack(tmp_path, "wards.duckdb", "wards.ledger", "file.ledger", "people.ledger")
    golden.rows_of_commands(tmp_path)
    with chdir(tmp_path):
        figures = golden.commanded(golden.COMMANDS[name])
    expected = TOLD["commands"][name]
    assert differences(expected, told({each: figures[golden.OPENED.get(each, each)] for each in expected})) == []


def test_a_service_goes_on_with_its_own_database(tmp_path):
    known = TOLD["service"]
    golden.unpack(tmp_path, "served.duckdb", "service.ledger", "service.db")
    with golden.serving(tmp_path, unsafe_noise=Seeded(2)) as (_, address):
        with client_of(address, known["alice"]) as alice, client_of(address, known["carol"]) as carol:
            found = golden.looked_at(alice, carol, known["jobs"])
            for who in ("alice", "carol"):
                about = found[f"{who} /v1/datasets/visits"]
                about["relation"] = about["neighbors"]  # its name when it was recorded
            assert lost(known["looked at"], found) == []
            assert lost(known["again"], golden.asked_again(alice)) == []
            kept = known["looked at"]["alice /v1/datasets/visits/budget"]
            assert lost(kept, alice.get("/v1/datasets/visits/budget").json()) == []
        with client_of(address, known["bob"]) as bob:
            assert bob.get("/v1/datasets").status_code == 401


def of_today(typed):
    """A value that was kept, by the tag that its class has now and without fields that are gone."""
    if not isinstance(typed, dict) or typed.keys() != {"of", "fields"}:
        return typed
    tag, _ = MERGED.get(typed["of"], (typed["of"], None))
    return {"of": tag, "fields": {name: each for name, each in typed["fields"].items() if name not in GONE}}


@pytest.mark.parametrize("line", WIRE, ids=lambda line: line["what"])
def test_a_value_is_read_from_the_wire(line):
    value = of_typed(line["typed"])
    typed = in_typed(value)
    assert lost(of_today(line["typed"]), typed) == []
    assert of_typed(typed) == value
    if isinstance(value, Quote):
        assert value.lines()
    else:
        reads = golden.reads(value) if isinstance(value, Answer) else told(getattr(value, "to_dict", value.__str__)())
        assert lost(lasting(line["reads"]), reads) == []


def tags(written):
    """Every tag in a typed value."""
    if isinstance(written, dict):
        inner = {tag for each in written.values() for tag in tags(each)}
        return inner | ({written["of"]} if written.keys() == {"of", "fields"} else set())
    return {tag for each in written for tag in tags(each)} if isinstance(written, list) else set()


def test_whatever_goes_over_the_wire_has_a_tag_of_its_own():
    assert {tag for line in WIRE for tag in tags(line["typed"])} <= TAGS.keys() | MERGED.keys()
    assert len(set(TAGS.values())) == len(TAGS)


def test_every_answer_has_a_tag_of_its_own():
    def kinds(kind):
        return {kind} | {inner for each in kind.__subclasses__() for inner in kinds(each)}

    tagged = set(TAGS.values())
    made = {kind for kind in kinds(Answer) if kind.__module__.startswith("chary.") and not kind.__subclasses__()}
    assert {kind.__name__ for kind in made - tagged} == set()
