"""A refusal speaks the language of where it appears: no Python in a command, on the wire or on a page."""

import ast
import json
import re
from pathlib import Path

import pytest

import chary
from chary.calls import read
from chary.calls.language import spoken
from chary.calls.run import Opening
from chary.cli.forms import Options
from chary.client.problems import error_of
from chary.errors import CharyError
from chary.service.core.problems import FIELDS, LABELS, problem
from chary.service.core.requests import readable_kinds
from tests.cli.kit import SMALL
from tests.conformance.samples import KINDS, TYPED, USUAL
from tests.conformance.test_command import line_of

LANGUAGES = {"command": Options(), "body": FIELDS, "form": LABELS}
# What is in quotes is a text of somebody; the JSON of a body has quotes of its own.
QUOTED = re.compile(r"""(?<!\w)(?:"[^"]*"|'[^']*')(?!\w)|--[a-z-]+ \S+""")
PYTHON = re.compile(r"\b[a-z]\w*=(?!=)|\b(?:session|chary|run)\.\w|\b(?:[A-Z]\w+|count|sum|mean|histogram|by)\(")
WRONG = [[], {}, "", "x", -1, 0, True, None, 1.5, [None], {"kind": "count"}, {"a": 1}, "1e400"]
SOURCE = Path(chary.__file__).parent
# What only a program can bring to a session, or do with what it has in its memory.
OF_PROGRAMS = ("lambda", "source.series()", "query.parts", "statistic(", "NeighborRelation", "Votes", "a menu lists")
# What only who opens rows is told, by the command or in Python.
OF_OPENING = ("Budget(", "Blocks(", "CSVFormat(")


def python_in(told):
    return PYTHON.findall(QUOTED.sub("", told))


def messages(package):
    """Every text that a package raises, with a name for what it works out."""
    for file in sorted((SOURCE / package).rglob("*.py")):
        raised = [node.exc for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Raise)]
        texts = [node.args[0] for node in raised if isinstance(node, ast.Call) and node.args]
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value
            elif isinstance(text, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "n" for part in text.values)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("package", ["calls", "core", "filters", "data", "mechanisms", "session"])
def test_no_message_of_the_library_has_python_left(package, language):
    beyond = OF_PROGRAMS + (() if language == "command" else OF_OPENING)
    told = [each for each in messages(package) if not any(code in each for code in beyond)]
    assert told
    assert [each for each in told if python_in(spoken(each, LANGUAGES[language]))] == []


@pytest.mark.parametrize("kind", sorted(readable_kinds()))
def test_what_a_constructor_refuses_is_said_in_each_language_and_a_client_raises_it_as_it_was(kind):
    body, tried = KINDS[kind]().body(), set()
    for wrong in ({**body, name: value} for name in body if name != "kind" for value in WRONG):
        try:
            read(wrong)
        except CharyError as error:
            tried.add(str(error))
    assert tried
    for said in tried:
        assert str(error_of(problem(CharyError(said)), 422)) == said
        for language in LANGUAGES.values():
            assert python_in(spoken(said, language)) == [], said


def test_what_is_refused_when_it_is_asked_is_said_in_fields(service, http):
    place = "/v1/datasets/visits"
    for kind in sorted(readable_kinds()):
        body = KINDS[kind]().body()
        route = "runs" if issubclass(readable_kinds()[kind], Opening) else "calls"
        sized = {name: "90" for name in ("epsilon", "rho") if body.get(name) is not None}
        for wrong in ({**body, **sized}, {**body, "query": {"kind": "sum", "column": "age", "bounds": [0, 9]}}):
            told = http.post(f"{place}/{route}", json=wrong)
            if told.status_code != 200:
                assert python_in(told.json()["detail"]) == [], told.text


@pytest.mark.parametrize("kind", USUAL)
def test_what_a_command_refuses_is_said_in_options(call, patients, kind):
    options = TYPED[USUAL[kind]].typed
    wrong = [options.replace(SMALL, "--epsilon 90"), options.replace(SMALL, ""), f"{options} --neighbors sideways"]
    wrong += [f"{options} --max-rows-per-unit 0", f"{options} --hits 0", f"{options} --where age"]
    for said in wrong:
        code, out, err = call(line_of(USUAL[kind], options=said))
        if code:
            assert out == ""
            assert python_in(err.partition(", as in: ")[0]) == [], (said, err)


def test_a_message_that_quotes_somebody_leaves_that_as_it_is():
    told = """the condition "hits='3' AND age=5" names 'day=1', give tests="""
    assert spoken(told, FIELDS) == """the condition "hits='3' AND age=5" names 'day=1', give "tests\""""
    assert json.loads("{" + spoken("keys=['a', 'b']", FIELDS) + "}") == {"keys": ["a", "b"]}
