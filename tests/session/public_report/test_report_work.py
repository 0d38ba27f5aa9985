"""How much work a report of thousands of calls is, counted and not timed."""

import re
import zlib
from dataclasses import replace

import pytest
from matplotlib.text import Text

from chary.accounting import intervals as publications
from chary.data.predicates import predicate as parsing
from chary.report import report
from tests.session.public_report.pages import asked

CALLS = 3_000


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    place = tmp_path_factory.mktemp("work") / "visits.ledger"
    asked(place).close()
    return report(place)


def test_a_pdf_lays_out_no_text_for_each_row(small, tmp_path, monkeypatch):
    drawn, draw = [], Text.draw
    monkeypatch.setattr(Text, "draw", lambda self, renderer: (drawn.append(self), draw(self, renderer))[1])
    small.save(tmp_path / "small.pdf")
    few, drawn[:] = len(drawn), []
    [found] = small.datasets
    single = [call for call in found.calls if not call.keyed and call.kind != "track"]
    many = tuple(replace(single[place % len(single)], call=place + 1) for place in range(CALLS))
    replace(small, datasets=(replace(found, calls=found.calls + many),)).save(tmp_path / "many.pdf")
    pages = (tmp_path / "many.pdf").read_bytes().count(b"/Type /Page ")
    assert pages > 100
    assert len(drawn) <= few + pages


def test_the_lines_of_a_pdf_can_be_read_and_searched(small, tmp_path):
    [found] = small.datasets
    strange = replace(found.calls[0], question="city is 日本", analyst="Zoë")
    replace(small, datasets=(replace(found, calls=(strange, *found.calls)),)).save(tmp_path / "report.pdf")
    written = (tmp_path / "report.pdf").read_bytes()
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", written, re.DOTALL)
    told = b"".join(_opened(stream) for stream in streams)
    assert b"(All queries and their answers)" in told
    assert "(Zoë)".encode("cp1252") in told or rb"(Zo\353)" in told
    assert b"(Release: count where age" in told
    assert b"/BaseFont /Helvetica" in written
    assert b"DejaVuSans" in written


def _opened(stream):
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


def test_a_question_is_read_once(tmp_path, monkeypatch):
    place = tmp_path / "visits.ledger"
    asked(place).close()
    parsing._read.cache_clear()
    trees, condition = [], parsing._check_tokens
    monkeypatch.setattr(parsing, "_check_tokens", lambda text: (trees.append(text), condition(text))[1])
    report(place)
    assert len(trees) == len(set(trees))
    publications._ends_from.cache_clear()
    report(place)
    assert len(trees) == len(set(trees))
