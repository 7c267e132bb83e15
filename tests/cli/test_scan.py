from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opscanner.ir import UnitReach, UnitResult, UnitStatus


def statuses(run: Any) -> list[tuple[str, str]]:
    return [(unit["file"], unit["status"]) for unit in run("coverage", "--units", "--format", "json").data]


def test_a_scan_fills_the_default_database_and_reports_on_stderr(scan: Any, run: Any) -> None:
    outcome = scan()
    assert outcome.code == 0, outcome.err
    assert outcome.out == ""
    assert Path("opscanner.sqlite").is_file()
    assert "translation units" in outcome.err
    assert "3 ok, 0 with errors, 0 skipped" in outcome.err
    assert statuses(run) == [("native/A.cu", "ok"), ("native/B.cu", "ok"), ("native/C.cu", "ok")]


def test_the_database_comes_from_the_option_or_else_from_the_environment(
    scan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSCANNER_DB", "from_environment.sqlite")
    assert scan().code == 0
    assert scan("--db", "from_option.sqlite").code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["from_environment.sqlite", "from_option.sqlite"]


@pytest.mark.usefixtures("frontend")
def test_a_file_that_is_not_there_is_a_skipped_unit_and_the_scan_is_done_in_part(run: Any, checkout: Path) -> None:
    outcome = run("scan", checkout, "--compile-db", checkout / "with_gone.json")
    assert outcome.code == 3
    assert ("native/Gone.cu", "skipped") in statuses(run)
    assert "the file does not exist" in outcome.err
    assert run("scan", checkout, "--compile-db", checkout / "with_gone.json", "--strict").code == 1


def test_an_error_inside_a_device_function_is_done_in_part(scan: Any, frontend: Any) -> None:
    def broken(unit: UnitResult) -> UnitResult:
        kernel = unit.instances[1]._replace(has_error=True)
        return replace(unit, status=UnitStatus.ERRORS, instances=(kernel,), reach=(UnitReach(kernel.key, True, True),))

    frontend.change = broken
    outcome = scan()
    assert outcome.code == 3
    assert "1 with an error inside" in outcome.err


def test_an_interrupted_scan_keeps_what_was_written_and_goes_on(scan: Any, run: Any, frontend: Any) -> None:
    def interrupt(unit: UnitResult) -> UnitResult:
        if unit.file == "native/B.cu":
            raise KeyboardInterrupt
        return unit

    frontend.change = interrupt
    outcome = scan()
    assert outcome.code == 130
    assert frontend.closed
    assert "goes on" in outcome.err
    assert "Traceback" not in outcome.err
    assert statuses(run) == [("native/A.cu", "ok")]
    assert "not finished" in run("coverage").out

    frontend.change, frontend.seen = (lambda unit: unit), []
    outcome = scan()
    assert outcome.code == 0
    assert frontend.seen == ["native/B.cu", "native/C.cu"]
    assert "2 units" in outcome.err
    assert "1 had been scanned before" in outcome.err
    assert len(statuses(run)) == 3
    assert "not finished" not in run("coverage").out


def test_an_interrupted_scan_begins_afresh_with_rescan_or_with_another_libclang(scan: Any, frontend: Any) -> None:
    def interrupt(unit: UnitResult) -> UnitResult:
        if unit.file == "native/B.cu":
            raise KeyboardInterrupt
        return unit

    frontend.change = interrupt
    assert scan().code == 130
    assert scan("--rescan").code == 130
    assert frontend.seen == ["native/A.cu", "native/B.cu"] * 2
    frontend.versions = {"libclang": "23.0.0"}
    assert scan().code == 130
    assert frontend.seen == ["native/A.cu", "native/B.cu"] * 3


def test_an_interrupted_scan_scans_a_unit_again_whose_command_has_changed(
    scan: Any, frontend: Any, checkout: Path
) -> None:
    def interrupt(unit: UnitResult) -> UnitResult:
        if unit.file == "native/C.cu":
            raise KeyboardInterrupt
        return unit

    frontend.change = interrupt
    assert scan().code == 130
    database = checkout / "compile_commands.json"
    database.write_text(database.read_text().replace("nvcc -c native/A.cu", "nvcc -DX=1 -c native/A.cu"))
    frontend.change, frontend.seen = (lambda unit: unit), []
    assert scan().code == 0
    assert frontend.seen == ["native/A.cu", "native/C.cu"]


def test_a_finished_scan_that_is_repeated_scans_everything_and_duplicates_nothing(
    scan: Any, run: Any, frontend: Any
) -> None:
    assert scan().code == 0
    before = run("casts", "--format", "csv").out
    assert scan().code == 0
    assert frontend.seen == ["native/A.cu", "native/B.cu", "native/C.cu"] * 2
    assert run("casts", "--format", "csv").out == before


def test_only_chooses_units_and_leaves_the_others_in_the_database(scan: Any, run: Any, frontend: Any) -> None:
    assert scan().code == 0
    frontend.seen = []
    assert scan("--only", "B.cu", "--only", "native/C*").code == 0
    assert frontend.seen == ["native/B.cu", "native/C.cu"]
    assert len(statuses(run)) == 3


def test_a_whole_scan_removes_units_that_are_no_longer_in_the_compile_database(
    scan: Any, run: Any, checkout: Path
) -> None:
    assert scan().code == 0
    (checkout / "native" / "C.cu").unlink()
    assert scan().code == 3
    assert statuses(run) == [("native/A.cu", "ok"), ("native/B.cu", "ok"), ("native/C.cu", "skipped")]


def test_only_that_matches_nothing_names_files_that_come_close(scan: Any) -> None:
    outcome = scan("--only", "*/Bb.cu")
    assert outcome.code == 2
    assert "matches none of the 3 files" in outcome.err
    assert "native/B.cu" in outcome.err


def test_both_passes_of_a_cuda_file_are_two_units(scan: Any, run: Any) -> None:
    assert scan("--passes", "both", "--only", "A.cu").code == 0
    units = run("coverage", "--units", "--format", "json").data
    assert [(unit["file"], unit["cuda_pass"]) for unit in units] == [("native/A.cu", "device"), ("native/A.cu", "host")]


def test_a_root_that_is_not_there_is_a_usage_error_that_names_what_comes_close(run: Any, checkout: Path) -> None:
    outcome = run("scan", checkout.parent / "checkuot")
    assert outcome.code == 2
    assert "there is no" in outcome.err
    assert f"did you mean {checkout}?" in outcome.err
    assert not Path("opscanner.sqlite").exists()


def test_a_broken_compile_database_is_an_error_that_names_it(run: Any, frontend: Any, checkout: Path) -> None:
    broken = checkout / "broken.json"
    broken.write_text("[{")
    outcome = run("scan", checkout, "--compile-db", broken)
    assert outcome.code == 1
    assert str(broken) in outcome.err
    assert "Traceback" not in outcome.err


def test_a_database_that_cannot_be_written_is_told_before_any_work(scan: Any, frontend: Any, tmp_path: Path) -> None:
    outcome = scan("--db", tmp_path / "no" / "folder.sqlite")
    assert outcome.code == 1
    assert "there is no folder" in outcome.err
    assert frontend.seen == []


def test_an_installed_package_whose_headers_are_not_known_is_wrong_usage(run: Any) -> None:
    outcome = run("scan", "installed:numpy")
    assert outcome.code == 2
    assert "installed:torch and installed:tensorflow" in outcome.err


def test_a_scan_of_one_pass_leaves_the_units_of_the_other(scan: Any, run: Any) -> None:
    assert scan("--passes", "both").code == 0
    assert scan("--passes", "host", "--only", "A.cu").code == 0
    assert scan("--passes", "host").code == 0
    units = run("coverage", "--units", "--format", "json").data
    assert [(unit["file"], unit["cuda_pass"]) for unit in units] == [
        (f"native/{name}.cu", cuda_pass) for name in "ABC" for cuda_pass in ("device", "host")
    ]


def test_a_scan_of_one_file_leaves_the_rest_of_its_folder(run: Any, checkout: Path, frontend: Any) -> None:
    frontend.root = checkout / "native"
    database = checkout / "compile_commands.json"
    assert run("scan", frontend.root, "--compile-db", database).code == 0
    frontend.seen = []
    assert run("scan", frontend.root / "B.cu", "--compile-db", database).code == 0
    assert frontend.seen == ["B.cu"]
    assert statuses(run) == [("A.cu", "ok"), ("B.cu", "ok"), ("C.cu", "ok")]
    (checkout / "native" / "Other.cu").touch()
    outcome = run("scan", frontend.root / "Other.cu", "--compile-db", database)
    assert outcome.code == 2
    assert "has no entry for" in outcome.err
