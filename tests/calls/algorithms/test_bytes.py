"""Outcomes in bytes: kept in a ledger, handed back as bytes, equal by their bytes, had as files by every way in."""

import hashlib
import json

import pytest

import chary
from chary import Algorithm, AlgorithmFailed, Budget, InvalidParameter
from chary.answers import bytes_in_json, with_bytes
from chary.calls import Boundary, MultiTarget, OnChange, PublishIf, RunAlgorithm, TopK, When, Widen
from chary.calls.algorithm import MOST_BYTES, canonical_outcome
from chary.cli import run
from chary.noise import Seeded
from tests.session.kit import USUAL, visits

MODEL = bytes(range(256)) + b"\xff\x00"
KEPT = {"bytes": "AP8=", "sha256": hashlib.sha256(b"\x00\xff").hexdigest()}


def returning(*values, name="model", **more):
    """An algorithm that returns these in turn, and the last one again."""
    left = list(values)
    return Algorithm(name, lambda rows, source: left.pop(0) if len(left) > 1 else left[0], epsilon="0.02", **more)


def test_what_a_ledger_keeps_is_fixed():
    assert bytes_in_json(b"\x00\xff") == KEPT
    assert canonical_outcome(b"\x00\xff") == json.dumps(KEPT, separators=(",", ":"))
    assert with_bytes({"a": [KEPT, 1]}) == {"a": [b"\x00\xff", 1]}


@pytest.mark.parametrize(
    "told",
    [
        KEPT | {"sha256": "0" * 64},
        KEPT | {"bytes": "AP8"},
        KEPT | {"bytes": "AP8=\n"},
        KEPT | {"bytes": 3},
        KEPT | {"more": 1},
        {"bytes": "AP8="},
    ],
)
def test_other_objects_stay_what_they_are(told):
    assert with_bytes(told) == told
    assert chary.open(visits(), privacy_unit="patient", budget=USUAL, ledger=":memory:").ask(
        RunAlgorithm(returning(told))
    ).value == json.loads(json.dumps(told))


@pytest.mark.parametrize("value", [MODEL, b"", [1, MODEL], {"model": MODEL, "score": 2}])
def test_they_are_handed_back_fresh_repeated_and_reopened(opened, tmp_path, value):
    place = str(tmp_path / "kept.ledger")
    with opened(ledger=place) as session:
        answer = session.ask(RunAlgorithm(returning(value)), request="model")
        assert answer.value == value
        assert session.ask(RunAlgorithm(returning(b"another")), request="model") == answer
        assert with_bytes(answer.to_dict()["value"]) == value
    with opened(ledger=place) as session:
        assert session.ask(RunAlgorithm(returning(b"another")), request="model").value == value
        assert session.history[-1].outcome == value


def test_people_are_told_how_many_bytes_they_are(opened):
    answer = opened().ask(RunAlgorithm(returning(MODEL)))
    for told in (str(answer), answer.in_words, answer._repr_html_()):
        assert f"258 bytes of SHA-256 {hashlib.sha256(MODEL).hexdigest()}" in told
        assert "AAEC" not in told


def test_equal_bytes_are_the_prior_and_others_hit(opened):
    session = opened()
    miss = session.ask(RunAlgorithm(returning(MODEL), prior=bytearray(MODEL)))
    hit = session.ask(RunAlgorithm(returning(MODEL), prior=MODEL[:-1]))
    assert (miss.in_target, miss.charged.share, hit.in_target) == (False, 0, True)
    text = session.ask(RunAlgorithm(returning("AA=="), prior=b"\x00"))
    assert text.in_target
    listed = returning(b"b", outcomes=[b"a", b"b"])
    assert not session.ask(RunAlgorithm(listed, target=[b"a"])).in_target
    assert RunAlgorithm(listed, target=[b"a"]) == RunAlgorithm(listed, target=[b"a"])
    assert RunAlgorithm(listed, prior=b"a") != RunAlgorithm(listed, prior=b"b")


def test_every_operator_hands_bytes_back(opened):
    session = opened(unsafe_noise=Seeded(1))
    long = When("long", lambda model: isinstance(model, bytes) and len(model) > 100)
    held = session.ask(PublishIf(returning(b"short"), when=long))
    assert held.value is None
    assert session.ask(Widen(held.call, when=When("any", lambda model: model == b"short"))).value == b"short"
    assert session.ask(PublishIf(returning(MODEL), when=long)).value == MODEL
    changing = OnChange(returning(MODEL, MODEL, b"new"))
    found = [session.ask(changing) for _ in range(3)]
    assert [(each.value, each.changed) for each in found] == [(MODEL, True), (MODEL, False), (b"new", True)]
    assert session.ask(Boundary(returning(MODEL), runs=3)).value == MODEL
    assert session.ask(Boundary(returning(b"a", b"b"), runs=2, publish=True)).value == (b"a", b"b")
    best = session.ask(TopK([returning([3, MODEL])], k=1)).best[0]
    assert (best.score, best.solution) == (3, MODEL)
    race = session.start(MultiTarget(["one", "two"]))
    raced = race.ask(returning(MODEL), priors={"one": MODEL, "two": b""})
    assert (raced.value, raced.hits) == (MODEL, ("two",))


def test_too_many_bytes_are_refused_as_a_prior_and_fail_as_an_outcome(opened):
    session, many = opened(), bytes(MOST_BYTES + 1)
    with pytest.raises(InvalidParameter, match="at most 4,194,304, these are 4,194,305"):
        session.ask(RunAlgorithm(returning(b""), prior=many))
    assert session.history == []
    with pytest.raises(AlgorithmFailed, match="charged"):
        session.ask(RunAlgorithm(returning(many), prior=b""))
    assert session.spent.share > 0
    assert session.ask(RunAlgorithm(returning(many[1:]))).value == many[1:]


def test_a_command_writes_them_into_a_new_file(tmp_path, capsys):
    place, target = tmp_path / "kept.ledger", tmp_path / "model.bin"
    with chary.open(visits(), privacy_unit="patient", budget=Budget(1, "1e-6"), ledger=str(place)) as session:
        call = session.ask(RunAlgorithm(returning(MODEL))).call
        plain = session.ask(RunAlgorithm(returning(7, name="plain"))).call
    asked = ["ledger", "outcome", str(place)]
    assert run([*asked, str(call), str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(target), "sha256": hashlib.sha256(MODEL).hexdigest()}
    assert target.read_bytes() == MODEL
    assert run([*asked, str(call), str(target)]) == 2
    assert "File exists" in capsys.readouterr().err
    for other in (plain, 99):
        assert run([*asked, str(other), str(tmp_path / "other")]) == 2
    assert not (tmp_path / "other").exists()
