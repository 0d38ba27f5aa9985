"""kill -9 at every step of an append to a folder of Parquet files: each file is read once, under one version."""

import signal

import pytest

import chary
from tests.children import Python
from tests.crash.append_child import PUBLIC, SECRET
from tests.crash.folder_child import KEY, STEPS, make, open_folder, write
from tests.session.kit import recorded

NOTED = {"noted", "committed"}


@pytest.mark.parametrize(
    ("step", "whose"), [*((step, "public") for step in STEPS), ("joined", "secret"), ("noted", "secret")]
)
def test_a_file_is_read_once_whatever_was_killed(tmp_path, step, whose):
    terms = PUBLIC if whose == "public" else SECRET
    make(tmp_path)
    recorded(open_folder(tmp_path, terms)).close()
    child = Python("-m", "tests.crash.folder_child", tmp_path, step, whose)
    _out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    with open_folder(tmp_path, terms) as session:
        before = session.versions
        assert session.release(chary.count("unit >= 2000"), epsilon=1000).value == 30
        version = session.append(tmp_path / "visits" / "2.parquet", request=KEY)
        assert version == session.append(tmp_path / "visits" / "2.parquet", request=KEY)
        assert session.append(write(tmp_path, 3, 5), request="April") == version + 1
        assert session.release(chary.count("unit >= 1000"), epsilon=1000).value == 235
        told = session.versions
    assert [each.kind for each in told].count("append") == 2
    assert told[: len(before)] == before
    assert [each.request for each in told if each.kind == "append"] == [KEY, "April"]
    assert (version <= len(before)) == (step in NOTED)
    if whose == "public":
        assert [each.size for each in told if each.kind == "append"] == [230, 235]
    with open_folder(tmp_path, terms) as session:
        assert session.append(tmp_path / "visits" / "2.parquet", request=KEY) == version
        assert session.versions == told
