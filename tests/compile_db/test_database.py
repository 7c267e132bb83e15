"""Reading, selecting and writing compile databases."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from parsing import write_source

from compile_db import CompileDatabase, CompileDatabaseError, load
from compile_db.database import make_command


def write(folder: Path, content: bytes) -> Path:
    path = folder / "compile_commands.json"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b'[{"file": "a.cu",\n "command" "x"}]', "compile_commands.json:2:12: is no JSON"),
        (b'[{"file": "a.cu"', "is no JSON"),
        (b'{"file": "a.cu"}', "holds a JSON dict, not a list"),
        (b"[]", "holds no entry"),
        (b"\xff\xfe\x00", "is no text"),
        (b"[" * 100_000, "is no"),
    ],
    ids=repr,
)
def test_a_file_that_is_no_database_is_refused_with_the_place_and_what_to_try(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(CompileDatabaseError) as caught:
        load(path)
    if content[:1] != b"[" or len(content) < 1000:
        assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.hint


def test_a_missing_file_is_refused_with_the_way_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(CompileDatabaseError, match="CMAKE_EXPORT_COMPILE_COMMANDS"):
        load(tmp_path / "compile_commands.json")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_byte_order_marks_are_no_hindrance(tmp_path: Path, encoding: str) -> None:
    write_source(tmp_path, "", "größe.cu")
    entry = {"directory": str(tmp_path), "file": "größe.cu", "command": "nvcc -c größe.cu"}
    path = write(tmp_path, json.dumps([entry], ensure_ascii=False).encode(encoding))
    assert [Path(command.file).name for command in load(path).commands] == ["größe.cu"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (7, "is a JSON int, not an object"),
        ({}, 'has no "file"'),
        ({"file": ""}, 'has no "file"'),
        ({"file": "a.cu"}, 'has neither "arguments" nor "command"'),
        ({"file": "a.cu", "arguments": ["nvcc", 3]}, '"arguments" is no list of texts'),
        ({"file": "a.cu", "arguments": []}, "has an empty command"),
        ({"file": "a.cu", "command": "nvcc 'open"}, '"command" cannot be split: No closing quotation'),
        ({"file": "a.cu", "directory": 4, "command": "nvcc"}, '"directory" is no text'),
        ({"file": "a\0.cu", "command": "nvcc"}, "holds a NUL character"),
    ],
    ids=repr,
)
def test_one_bad_entry_is_skipped_with_its_index_and_the_rest_is_read(
    tmp_path: Path, entry: object, reason: str
) -> None:
    write_source(tmp_path, "", "good.cu")
    good = {"directory": str(tmp_path), "file": "good.cu", "command": "nvcc good.cu"}
    database = load(write(tmp_path, json.dumps([good, entry]).encode()))
    assert [Path(command.file).name for command in database.commands] == ["good.cu"]
    assert [(skipped.index, skipped.reason) for skipped in database.skipped] == [(1, reason)]


def test_a_folder_stands_for_the_database_in_it_and_relative_directories_start_there(tmp_path: Path) -> None:
    write_source(tmp_path, "", "src/a.cu")
    write(tmp_path, json.dumps([{"directory": "src", "file": "a.cu", "command": "nvcc -I../inc a.cu"}]).encode())
    command = load(tmp_path).commands[0]
    assert (command.file, command.directory) == (str(tmp_path / "src/a.cu"), str(tmp_path / "src"))


def test_select_takes_globs_of_the_path_below_the_root_and_of_the_name() -> None:
    files = ("/r/native/cuda/SoftMax.cu", "/r/native/cpu/SoftMaxKernel.cpp", "/r/native/cuda/Loss.cu")
    database = CompileDatabase(tuple(make_command("/r", file, ("nvcc",)) for file in files), (), "test")

    def names(*globs: str) -> list[str]:
        return [Path(command.file).name for command in database.select(globs, "/r").commands]

    assert names() == ["SoftMax.cu", "SoftMaxKernel.cpp", "Loss.cu"]
    assert names("SoftMax.cu") == ["SoftMax.cu"]
    assert names("native/cuda/*") == ["SoftMax.cu", "Loss.cu"]
    assert names("cuda/Loss.cu", "*Kernel*") == ["SoftMaxKernel.cpp", "Loss.cu"]
    assert names("/r/native/cuda/Loss.cu") == ["Loss.cu"]
    assert names("ftMax.cu") == []


def test_a_written_database_reads_back_the_same(tmp_path: Path) -> None:
    write_source(tmp_path, "")
    command = make_command(str(tmp_path), "a.cu", ("nvcc", '-DNAME="x y"', "-c", "a.cu"), "a.o", "test")
    CompileDatabase((command,), (), "test").write(tmp_path / "out.json")
    again = load(tmp_path / "out.json").commands[0]
    assert (again.directory, again.file, again.arguments, again.output) == (
        command.directory, command.file, command.arguments, command.output,
    )  # fmt: skip


def test_writing_where_nothing_can_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "out.json").mkdir()
    with pytest.raises(CompileDatabaseError, match="cannot be written"):
        CompileDatabase((), (), "test").write(tmp_path / "out.json")
    assert os.listdir(tmp_path) == ["out.json"]


def test_errors_keep_their_fields_across_processes() -> None:
    error = CompileDatabaseError("what", where="x.json", entry=3, hint="try")
    again = pickle.loads(pickle.dumps(error))
    assert (again.what, again.where, again.entry, again.hint, str(again)) == ("what", "x.json", 3, "try", str(error))
    assert str(error) == "x.json, entry 3: what\n  try: try"
