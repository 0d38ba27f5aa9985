"""Writes the pictures of the page that the documentation shows: python -m tests.browser.screenshots [FOLDER].

With a folder it takes every page there, wide and on a phone, by day and by night, for people to look at.
"""

import io
import os
import re
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.browser.kit import DATASET, Visitor, batch, browsing, missing, serving
from tests.paths import ROOT

PLACE = f"/page/datasets/{DATASET}"
FIGURES = ROOT / "docs" / "figures"
PAGES = ("ask", "standing", "budget", "history", "report", "custodian")
SIZES = {"wide": {"width": 1280, "height": 800}, "phone": {"width": 400, "height": 800}}
# So large pictures would make the documentation slow.
MOST_BYTES = 150_000
# The page has few colours, so that these tell all of it.
COLOURS = 128
BATCHES = ((220, 61), (180, 62), (40, 30), (260, 60))


def main(folder=None):
    """Take all of them."""
    reason = missing()
    if reason is not None:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as home, serving(Path(home)) as site, browsing() as browser:
        alice = Visitor(browser, site.address, viewport=SIZES["wide"])
        carol = Visitor(browser, site.address, viewport=SIZES["wide"])
        alice.log_in(site.token("alice", "analyst"))
        carol.log_in(site.token("carol", "custodian"))
        let_questions_stand(alice.page)
        append_batches(site, alice, carol.page)
        answer = ask(alice.page)
        publish(carol.page)
        if folder is not None:
            every_page(browser, site, answer, Path(folder))
            return
        for name, visitor in ((name, carol if name == "custodian" else alice) for name in PAGES):
            visitor.page.goto(answer if name == "ask" else f"{PLACE}/{name}")
            take(visitor.page, FIGURES / f"page-{name}.png")
        phone = Visitor(browser, site.address, viewport=SIZES["phone"], color_scheme="dark")
        phone.log_in(site.token("carol", "custodian"))
        phone.page.goto(f"{PLACE}/standing")
        take(phone.page, FIGURES / "page-phone.png", whole=False)


def every_page(browser, site, answer, folder):
    """Each page in each size, by day and by night."""
    folder.mkdir(parents=True, exist_ok=True)
    for size, viewport in SIZES.items():
        for scheme in ("light", "dark"):
            visitor = Visitor(browser, site.address, viewport=viewport, color_scheme=scheme)
            visitor.log_in(site.token("dora", "analyst", "custodian"))
            for name in PAGES:
                visitor.page.goto(answer if name == "ask" else f"{PLACE}/{name}")
                take(visitor.page, folder / f"{name}-{size}-{scheme}.png")


def let_questions_stand(page):
    """What raises an alarm as the rows grow: whoever is 60 and older, and the sites."""
    stand(page, "release_if", {"Only rows where": "age >= 60", "Above": "250", "Hits": "20"})
    groups = {"Grouped by": "site", "Public groups": "1..6", "Above": "1100", "Hits": "40"}
    stand(page, "release_if", groups | {"Only rows where": "age < 60"})


def stand(page, kind, said):
    """Fill the form of a kind and let it stand."""
    page.goto(f"{PLACE}/ask?kind={kind}")
    fill(page, said)
    page.get_by_role("button", name="Create alert").click()
    page.get_by_label("Quota").fill("0.4")
    page.get_by_label("Notify of", exact=True).select_option("all")
    page.get_by_role("button", name="Create alert").click()
    page.get_by_text("waits for new rows").first.wait_for()


def fill(page, said):
    """Fields by their labels."""
    for label, text in said.items():
        page.get_by_label(re.compile(f"^{label}( optional)?$")).first.fill(text)


def append_batches(site, alice, page):
    """Batches that a custodian appends; each is waited for until it was asked about."""
    for number, (rows, age) in enumerate(BATCHES, 1):
        page.goto(f"{PLACE}/custodian")
        page.get_by_label("New rows (CSV file)").set_input_files(batch(site.folder, rows, age))
        page.get_by_role("button", name="Append").click()
        asked = re.compile(rf"\b{number}\b")
        alice.until(lambda asked=asked: both_asked(alice.page, asked), f"{PLACE}/standing")


def both_asked(page, times):
    """Whether both questions were asked so often."""
    told = page.locator("dl.figures > div", has_text="Times asked").locator("dd").all_inner_texts()
    return len(told) == 2 and all(times.search(each) for each in told)


def ask(page):
    """One question with its quote and its answer."""
    page.goto(f"{PLACE}/ask?kind=release_if")
    fill(page, {"Grouped by": "plan", "Public groups": "1..19", "Above": "200", "Hits": "40"})
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url(re.compile("answer="))
    page.get_by_text("A hit costs", exact=True).wait_for()
    return page.url


def publish(page):
    """The report of now."""
    page.goto(f"{PLACE}/report")
    page.get_by_role("button", name="Publish").click()
    page.get_by_text("Budget charged", exact=True).wait_for()


def take(page, place, *, whole=True):
    """A picture of the page, once its own pictures are there."""
    page.wait_for_function("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    taken = page.screenshot(full_page=whole, animations="disabled", caret="hide")
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(place, optimize=True)
    size = os.path.getsize(place)
    if size > MOST_BYTES:
        raise SystemExit(f"{place.name} has {size:,} bytes, more than {MOST_BYTES:,}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
