"""The tutorial as a newcomer follows it: every file is written, every line typed, and a real service runs meanwhile."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from importlib import metadata
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs/start/office.md").read_text(), re.DOTALL)
PORT = "8321"
END = """
import os

import chary

with chary.connect("http://127.0.0.1:8321", os.environ["TOKEN"]) as session:
    session.end(session.standing[0]["standing"])
"""


class Newcomer:
    """A folder, a shell whose variables stay, and the service in a second terminal."""

    def __init__(self, folder):
        self.folder, self.told, self.service = folder, {}, None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        places = [str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = os.environ | {"PATH": os.pathsep.join(places), "PYTHONPATH": os.pathsep.join(sys.path)}

    def follow(self, language, text):
        """One block of the page."""
        said = text.replace(PORT, self.port)
        if language in ("python", "toml"):
            name = re.match(r"# (\w+\.(?:py|toml))\n", said)[1]
            (self.folder / name).write_text(said)
        elif said.startswith("chary serve"):
            self.serve(said)
        elif "pip install" not in said:  # that is of another test
            self.type(said)

    def type(self, said):
        """Lines into the shell."""
        kept = self.folder / ".variables"
        script = f"set -euo pipefail\n. {kept}\n{said}\nexport -p > {kept}\n"
        kept.touch()
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{said}\n{done.stdout}{done.stderr}"
        self.told.setdefault(said.strip().splitlines()[0], []).append(done.stdout)

    def serve(self, said):
        """The second terminal; until it is ready."""
        log = (self.folder / "service.log").open("w")
        self.service = subprocess.Popen(
            said.split(), cwd=self.folder, env=self.environment, stdout=log, stderr=subprocess.STDOUT
        )
        log.close()
        until = time.monotonic() + 600
        while not self.ready():
            assert self.service.poll() is None, (self.folder / "service.log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)

    def ready(self):
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/ready").is_success
        except httpx.TransportError:
            return False

    def leave(self):
        """Ctrl-C in the second terminal."""
        self.service.send_signal(signal.SIGINT)
        self.service.wait(300)


@pytest.fixture
def newcomer(tmp_path):
    made = Newcomer(tmp_path)
    yield made
    if made.service is not None:
        made.service.kill()
        made.service.wait()


def test_every_step_does_what_the_page_says(newcomer):
    for language, text in BLOCKS:
        newcomer.follow(language, text)
    # Whoever ends the first subscription and creates another one is not left waiting for the one that ended.
    newcomer.type(f"cat > end.py <<'END'\n{END.replace(PORT, newcomer.port)}END\npython end.py\npython stand.py")
    newcomer.type("python append.py january.csv\ntimeout 120 python news.py")
    newcomer.leave()
    told = newcomer.told
    [quiet, alarmed] = told["python append.py february.csv"] + told["python append.py march.csv"]
    assert "hit" not in quiet
    assert re.search(r"hit about version \d+ in call \d+", alarmed)
    [looked] = told["python look.py"]
    assert "interval" in looked
    assert "charged 13.1 %" in looked
    [verified] = told["chary ledger verify visits.duckdb.ledger"]
    assert "Release" in verified
    assert "test" in verified


def test_what_is_installed_is_whole(tmp_path):
    """The lines as they stand in a checkout of its own, without what chary depends on, which is there already."""
    pytest.importorskip("setuptools", minversion="77")
    for part in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    newcomer = Newcomer(tmp_path)
    libraries = [place for place in sys.path if place.endswith("site-packages")]
    newcomer.environment |= {"PYTHONPATH": os.pathsep.join(libraries), "PYTHONNOUSERSITE": "1"}
    [lines] = [text for language, text in BLOCKS if language == "sh" and "pip install" in text]
    newcomer.type(lines.replace("pip install", "pip install --quiet --no-deps --no-index --no-build-isolation"))
    shutil.rmtree(tmp_path / "src")
    newcomer.type("chary --version")
    assert newcomer.told["chary --version"] == [f"chary {version('chary')}\n"]
    installed = next((tmp_path / ".venv").glob("lib/*/site-packages/chary"))
    assert names(installed) == names(ROOT / "src" / "chary")
    extras = metadata.Distribution.at(next(installed.parent.glob("chary-*.dist-info"))).metadata.get_all(
        "Provides-Extra"
    )
    assert set(re.findall(r"\.\[(\w+)\]", lines)) <= set(extras)


def names(folder):
    """All files that users need, of which none may be missing in a wheel."""
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file() and each.suffix != ".pyc"}


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_what_a_page_installs_is_a_checkout_or_a_wheel_of_it(page):
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for target, extras in re.findall(r"pip install ['\"]([^'\"\[]*)\[([\w,]+)\]['\"]", page.read_text()):
        assert re.fullmatch(r"\.|(dist/)?chary-[\d.]+-py3-none-any\.whl", target), target
        assert target == "." or version("chary") in target
        assert set(extras.split(",")) <= set(known)


def test_every_block_is_a_file_or_typed():
    assert {language for language, _ in BLOCKS} == {"sh", "python", "toml"}
    assert sum(text.startswith("chary serve") for _, text in BLOCKS) == 1
