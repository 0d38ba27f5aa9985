"""Which files a folder or a pattern stands for."""

import pytest

from chary.data.source import Folder, RowSource
from chary.errors import InvalidParameter
from chary.session.opening import usual_name

NAMES = [
    "b.parquet",
    "a.PARQUET",
    "c10.pq",
    "c9.pq",
    ".hidden.parquet",
    "_SUCCESS",
    "_part.parquet",
    "notes.txt",
    "d.csv",
]


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / "visits" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "visits" / name).touch()
    return tmp_path / "visits"


def names(paths):
    return [path.rpartition("/")[2] for path in paths]


def test_a_folder_is_its_parquet_files_in_the_order_of_their_names(folder):
    source = RowSource.of(folder)
    assert (source.kind, names(source.paths)) == ("parquet", ["a.PARQUET", "b.parquet", "c10.pq", "c9.pq"])
    assert RowSource.of(f"{folder}/").paths == source.paths
    assert source.folder == Folder(str(folder))


def test_a_pattern_chooses_by_the_name_of_the_file(folder):
    assert names(RowSource.of(folder / "c*.pq").paths) == ["c10.pq", "c9.pq"]
    assert names(RowSource.of(folder / "c?.pq").paths) == ["c9.pq"]
    assert names(RowSource.of(folder / "[ab].parquet").paths) == ["b.parquet"]
    (folder / "e").mkdir()
    assert names(RowSource.of(folder / "b*.parquet").paths) == ["b.parquet"]


def test_a_file_with_such_a_name_is_that_file(folder):
    (folder / "c*.pq").touch()
    source = RowSource.of(folder / "c*.pq")
    assert (names(source.paths), source.folder) == (["c*.pq"], None)


def test_a_folder_with_such_a_name_is_that_folder(folder):
    (folder / "y[1]").mkdir()
    (folder / "y[1]" / "a.parquet").touch()
    assert names(RowSource.of(folder / "y[1]").paths) == ["a.parquet"]
    assert names(RowSource.of(folder / "y[1]" / "*.parquet").paths) == ["a.parquet"]


@pytest.mark.parametrize("named", ["x*.parquet", "*.csv", "*", "**/*.parquet", "../*/b.parquet", "s3://b/*.parquet"])
def test_what_stands_for_no_file_is_refused(folder, named, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(InvalidParameter):
        RowSource.of(named)


def test_folders_within_a_folder_are_not_left_out_silently(folder):
    (folder / "2026").mkdir()
    with pytest.raises(InvalidParameter, match="there are folders in"):
        RowSource.of(folder)


def test_a_folder_without_parquet_is_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="there is no file"):
        RowSource.of(tmp_path)


def test_which_files_would_be_found(folder, tmp_path):
    whole, some = Folder(str(folder)), Folder(str(folder), "c*.pq")
    for name in [*NAMES, "new.parquet", "c11.pq"]:
        (folder / name).touch()
        assert whole.holds(folder / name) == (name in names(whole.files())), name
        assert some.holds(folder / name) == (name in names(some.files())), name
    assert not whole.holds(tmp_path / "b.parquet")
    assert whole.holds(folder / ".." / "visits" / "b.parquet")


def test_a_folder_gives_its_name_to_the_dataset(folder, monkeypatch):
    assert usual_name(folder, None) == usual_name(f"{folder}/", None) == usual_name(folder / "c*.pq", None) == "visits"
    monkeypatch.chdir(folder)
    assert usual_name("*.parquet", None) == usual_name(".", None) == "visits"
    assert usual_name("b.parquet", None) == "b"


def test_what_an_interrupted_append_left_is_not_read(folder):
    """A batch that was added through Spark is there once its note is."""
    notes = folder / "_chary_batches"
    notes.mkdir()
    for name in ("chary-1.parquet", "chary-2.parquet"):
        (folder / name).touch()
    (notes / "1.json").write_text('{"number": 1, "request": null, "rows": 3, "file": "chary-1.parquet"}')
    found = names(Folder(str(folder)).files())
    assert "chary-1.parquet" in found
    assert "chary-2.parquet" not in found
    (notes / "2.json").write_text("{")
    with pytest.raises(InvalidParameter, match="notes of the batches") as caught:
        Folder(str(folder)).files()
    assert caught.value.__cause__ is None
