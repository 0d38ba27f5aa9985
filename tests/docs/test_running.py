"""What the page on running it names is there: commands, options, metrics, problems; and the unit is sound."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
import yaml
from prometheus_client import generate_latest

from chary.cli.app import app
from chary.client.problems import PROBLEMS
from chary.service.config import configured, service_config
from chary.service.core.delivery import Delivery
from chary.service.core.figures import Figures
from chary.service.store import ServiceStore
from tests.service.kit import service_at

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / name for name in ("howto/running.md", "howto/service.md", "start/office.md")]
UNIT = ROOT / "deploy/chary.service"
RUNNING = PAGES[0].read_text()
GETTING_OUT = PAGES[1].read_text().partition("## Deliver events")[2].partition("\n## ")[0]


def lines_of(page):
    """Every `chary` line of a page: those of its shell blocks, and those within a sentence."""
    text = page.read_text()
    typed = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    typed += re.findall(r"`(chary [^`]+)`", text)
    found = [re.search(r"(?:^|/|\()(chary (?:serve|token|ledger) ?.*)", line) for line in typed]
    return [re.split(r" [|#]|\)$", match[1])[0] for match in found if match]


LINES = sorted({line for page in PAGES for line in lines_of(page)})


@pytest.mark.parametrize("line", LINES)
def test_every_line_names_a_command_and_its_options(line):
    command, words = typer.main.get_command(app), shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    known = {name for each in command.params for name in each.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known
    places = [each for each in command.params if each.param_type_name == "argument"]
    given = [word for word in words if not word.startswith("-")]
    assert len(given) <= len(places) + sum(word.startswith("--") for word in words)


def test_there_are_lines():
    assert len(LINES) > 10
    assert any(line.startswith("chary ledger backup /") for line in LINES)


def test_metrics_and_problems_have_the_names_that_they_have(tmp_path):
    figures = Figures()
    figures.calls.labels("visits", "test").inc()
    figures.refusals.labels("x").inc()
    figures.left.labels("visits").set(1)
    figures.seconds.labels("GET", "/").observe(1)
    told = generate_latest(figures.registry).decode() + stored_figures(tmp_path)
    assert all(name in told for text in (RUNNING, GETTING_OUT) for name in re.findall(r"`(chary_[a-z_]+)`", text))
    assert set(re.findall(r'problem="([a-z-]+)"', RUNNING)) <= set(PROBLEMS) | {"unauthorized", "too-many-requests"}


def test_its_chary_toml_is_one(tmp_path):
    for text in re.findall(r"```toml\n(.*?)```", RUNNING, re.DOTALL):
        service = tomllib.loads(text)["service"]
        assert configured({"folder": tmp_path, "service": service, "dataset": {}}, "the page").service.proxies


def stored_figures(folder):
    service = service_at(folder)
    told = service.stored.told().decode()
    service.store.close()
    return told


def test_recipes_of_receivers_can_be_copied(tmp_path):
    """All into one chary.toml, with the files that they name."""
    blocks = re.findall(r"```toml\n(.*?)```", GETTING_OUT, re.DOTALL)
    (tmp_path / "chary.toml").write_text("\n".join(blocks) + "\n[dataset.visits]\nfile = 'visits.csv'\nunit = 'person'")
    for name, secret in (
        ("ops.secret", "x" * 24),
        ("chat.url", "https://hooks.example.org/T0/B0"),
        ("duty.key", "0" * 32),
    ):
        (tmp_path / name).write_text(secret)
    (tmp_path / "night.password").write_text("secret")
    config = service_config(tmp_path / "chary.toml")
    assert len(config.service.webhook) + len(config.service.mail) == len(blocks) == 4
    store = ServiceStore(tmp_path / "service.db")
    assert Delivery(config, store).receivers == ["chat", "duty", "night", "ops"]
    store.close()


def test_rules_of_prometheus_name_figures_and_labels_that_there_are(tmp_path):
    told = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", GETTING_OUT, re.DOTALL)]
    (scraped,), (rules,) = ([each[key] for each in told if key in each] for key in ("scrape_configs", "groups"))
    assert {"job_name", "static_configs", "scheme", "authorization"} == set(scraped[0])
    known = stored_figures(tmp_path)
    for rule in rules[0]["rules"]:
        assert {"alert", "expr"} <= set(rule) <= {"alert", "expr", "for", "annotations"}
        (figure,) = re.findall(r"chary_[a-z_]+", rule["expr"])
        assert f"# TYPE {figure} " in known
        (row,) = [line for line in GETTING_OUT.splitlines() if line.startswith("|") and f"`{figure}`" in line]
        labels = re.findall(r"labels\.(\w+)", str(rule)) + re.findall(r"(\w+)=", rule["expr"])
        assert set(labels) <= set(re.findall(r"\w+", row.split("|")[2]))


def test_the_proxies_say_who_came_and_let_streams_through():
    nginx = re.search(r"```nginx\n(.*?)```", RUNNING, re.DOTALL)[1]
    caddy = re.search(r"```caddy\n(.*?)```", RUNNING, re.DOTALL)[1]
    for words in ("proxy_buffering off", "X-Forwarded-For $proxy_add_x_forwarded_for", "Host $host"):
        assert words in nginx
    assert "flush_interval -1" in caddy
    for text in (nginx, caddy):
        assert text.count("{") == text.count("}")
        assert "127.0.0.1:8321" in text


def test_extras_that_are_installed_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {extra for extras in re.findall(r"whl\[([\w,]+)\]", RUNNING) for extra in extras.split(",")}
    assert named
    assert named <= set(project)


def test_the_unit_is_shut_in():
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(UNIT)
    said = unit["Service"]
    assert (said["NoNewPrivileges"], said["ProtectSystem"], said["CapabilityBoundingSet"]) == ("yes", "strict", "")
    assert said["User"] not in ("", "root")
    assert float(said["TimeoutStopSec"]) > 20  # stop-seconds
    [line] = re.findall(r"/(chary serve .*)", said["ExecStart"])
    test_every_line_names_a_command_and_its_options(line)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path):
    place = tmp_path / "chary.service"
    place.write_text(UNIT.read_text().replace("/opt/chary/bin/chary", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(place)], capture_output=True, text=True, timeout=60)
    told = done.stdout + done.stderr
    assert not [line for line in told.splitlines() if "chary.service" in line], told
