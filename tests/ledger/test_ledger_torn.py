"""A commit that was cut off: whichever pages reached the disk, and whatever became of the journal, nothing is lost."""

import random

import pytest

from chary.ledger import Amount, open_ledger

from .damage_kit import journal, opened, page_size, pages
from .kit import ANSWER, QUESTION, filled

STEPS = {
    "reserve": lambda ledger, _call: ledger.reserve("visits", "ann", "count", QUESTION, Amount(2, 1), request="late"),
    "settle": lambda ledger, call: ledger.settle(
        call, Amount(1), 1, 1, ANSWER, secret=b"new" * 20, secrets={4: b"moved-on"}
    ),
    "void": lambda ledger, call: ledger.void(call),
}


@pytest.fixture(scope="module", params=STEPS)
def commit(request, tmp_path_factory):
    """The file before and after one step, and what it tells at both times."""
    path = tmp_path_factory.mktemp("torn") / "test.ledger"
    ledger = filled(path)
    call = ledger.reserve("visits", "bob", "count", QUESTION, Amount(3, 2))
    before = path.read_bytes()
    STEPS[request.param](ledger, call)
    after = path.read_bytes()
    ledger.close()
    return before, after, page_size(path)


def tell(path, content, left=None):
    """What the ledger tells with this content, beside this journal."""
    path.write_bytes(content)
    if left is not None:
        path.with_name(f"{path.name}-journal").write_bytes(left)
    return opened(path)


def mixed(before, after, size, new):
    """The file of which only the pages in `new` were written."""
    old = pages(before, size)
    old += [bytes(size)] * (len(after) // size - len(old))
    return b"".join(page if number in new else old[number] for number, page in enumerate(pages(after, size)))


def test_a_main_file_without_its_journal_is_whole_or_refused(commit, path):
    before, after, size = commit
    known = [tell(path, before), tell(path, after)]
    assert None not in known
    assert known[0] != known[1]
    old = pages(before, size)
    changed = [n for n, page in enumerate(pages(after, size)) if n >= len(old) or page != old[n]]
    assert len(changed) >= 6
    sample = random.Random(3)
    parts = [{n} for n in changed] + [set(changed) - {n} for n in changed]
    parts += [{n for n in changed if sample.random() < 0.5} for _ in range(20)]
    for new in parts:
        assert tell(path, mixed(before, after, size, new)) in [None, *known], sorted(new)


def test_a_whole_journal_takes_the_commit_back(commit, path):
    before, after, size = commit
    old = tell(path, before)
    assert tell(path, after, journal(before, after, size)) == old
    assert not path.with_name(f"{path.name}-journal").exists()


def test_a_damaged_journal_is_found_or_does_no_harm(commit, path):
    before, after, size = commit
    left = journal(before, after, size)
    known, sample = [tell(path, before), tell(path, after)], random.Random(5)
    damaged = [left[: sample.randrange(len(left))] for _ in range(6)]
    damaged += [flipped(left, sample.randrange(8 * 28)) for _ in range(8)]
    damaged += [flipped(left, sample.randrange(8 * len(left))) for _ in range(8)]
    for content in damaged:
        assert tell(path, after, content) in [None, *known]
        for beside in path.parent.iterdir():
            beside.unlink()


def test_a_damaged_main_file_is_found_or_does_no_harm(commit, path):
    before, _after, _size = commit
    known, sample = tell(path, before), random.Random(7)
    damaged = [before[: sample.randrange(len(before))] for _ in range(4)]
    damaged += [flipped(before, sample.randrange(8 * 100)) for _ in range(8)]
    damaged += [flipped(before, sample.randrange(8 * len(before))) for _ in range(16)]
    for content in damaged:
        assert tell(path, content) in [None, known]
        for beside in path.parent.iterdir():
            beside.unlink()


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_the_main_file_alone_holds_every_charge_at_any_time(path, tmp_path):
    copy, ledger = tmp_path / "copy.ledger", filled(path)

    def alone():
        assert [each.name for each in tmp_path.iterdir() if each != copy] == [path.name]
        copy.write_bytes(path.read_bytes())
        other = open_ledger(copy)
        spent = other.balance("visits").spent
        other.close()
        return spent

    call = ledger.reserve("visits", "bob", "count", QUESTION, Amount(2, 1))
    assert alone() == Amount(4, 2)
    ledger.settle(call, Amount(1), 1, 1, ANSWER)
    assert alone() == Amount(3, 1)
    ledger.reserve("visits", "bob", "count", QUESTION, Amount(2, 1))
    assert alone() == Amount(5, 2)
    ledger.close()
