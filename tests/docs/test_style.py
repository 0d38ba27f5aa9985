"""Prose keeps the project's rules of words, or at least breaks them no more often than it did."""

from collections import Counter

import pytest

from tests.docs import style

LONG = " ".join(["Word"] * 31) + "."
# For each rule what breaks it, and what comes near and does not.
SAMPLES = {
    "FreeRelatives": ("Read on. Who knows it gets more.", "Who gets more? Readers who know it."),
    "Headings": ("# Say how", "Say how many you need."),
    "Phrases": ("There are so many of them.", "There are many of them."),
    "Semicolons": ("One; two; three.", "One; two. Three; four."),
    "SentenceLength": (LONG, f"{LONG[:-6]}. {LONG[:-6]}."),
    "Terms": ("Above the bar it is told.", "A bar chart with error bars."),
}


def broken(blocks):
    return [(line, rule.name) for block in blocks for rule in style.rules() for line, _ in rule.findings(block)]


def test_no_folder_breaks_the_rules_more_often_than_it_may():
    """What was mended is taken off the allowance by: python -m tests.docs.style --record"""
    found = style.everything()
    allowed = style.allowed()
    counts = Counter(map(style.folder, found))
    above = [str(one) for one in found if counts[style.folder(one)] > allowed.get(style.folder(one), 0)]
    assert not above, f"{dict(counts)} are more than {allowed}"


def test_what_is_allowed_only_falls(monkeypatch, tmp_path):
    monkeypatch.setattr(style, "ALLOWED", tmp_path / "allowed.toml")
    style.ALLOWED.write_text('"docs" = 2\n"src" = 1\n')
    found = [style.Finding(f"{name}/x", 1, "", "") for name in ("docs", "client", "client")]
    style.record(found)
    assert style.allowed() == {"docs": 1}


@pytest.mark.parametrize("rule", style.rules(), ids=lambda rule: rule.name)
def test_a_rule_finds_what_breaks_it_and_nothing_else(rule):
    bad, good = SAMPLES[rule.name.removeprefix("chary.")]
    assert {name for _, name in broken(style.markdown(bad))} == {rule.name}
    assert broken(style.markdown(good)) == []


@pytest.mark.parametrize(
    "text",
    [
        "`the bar` and ``told``",
        "$told = told$ and\n\n$$\ntold\n$$",
        "```python\ntold = 1\n```",
        "[here](told.md) and <https://told.example>",
        "```{code-cell}\ntold\n```",
    ],
)
def test_code_formulas_and_addresses_are_no_prose(text):
    assert broken(style.markdown(text)) == []


def test_findings_have_their_lines():
    page = (
        "# Title\n\nFirst\nline told.\n\n| a | b |\n|---|---|\n| x | told |\n\n```{note}\nIt is told.\n```\n\n- one\n- "
        + LONG
    )
    assert [line for line, _ in broken(style.markdown(page))] == [4, 8, 11, 15]
    code = (
        '"""Fine.\n\nWas told.\n\n>>> told = 1\n"""\nraise E(f"{x} was told so")\nN = "told"\nS = "SELECT told FROM it"'
    )
    assert [line for line, _ in broken(style.python(code))] == [3, 7]
    assert [line for line, _ in broken(style.template("<b>\n{{ told }}</b>\n<i title='told'>told</i>"))] == [3]


def test_a_file_that_somebody_reads_is_read():
    read = {path.relative_to(style.ROOT).parts[0] for path in style.files(style.ROOT / name for name in style.PROSE)}
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "src", "research"} <= read
