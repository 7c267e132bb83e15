"""The door to libclang: what is said when it is absent, too old, or one of several (L4, L5)."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from opscanner.errors import FrontendError
from opscanner.frontend import libclang, library_versions


@pytest.fixture(autouse=True)
def fresh_library() -> Iterator[None]:
    """Loading is remembered for the life of the process: forget it before and after."""
    libclang.load.cache_clear()
    yield
    libclang.load.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, **packages: str) -> None:
    """Pretend that exactly these packages are installed."""

    def version(name: str) -> str:
        try:
            return packages[name.replace("-", "_")]
        except KeyError:
            raise importlib.metadata.PackageNotFoundError(name) from None

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_without_the_module_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FrontendError) as raised:
        libclang.load()
    assert "clang.cindex is not installed" in raised.value.what
    assert "pip install 'libclang-ng==" in raised.value.hint


def test_bindings_that_do_not_import_are_told_with_the_packages_that_brought_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, clang="21.1.7", libclang="18.1.1")
    monkeypatch.setitem(sys.modules, "clang", ModuleType("clang"))  # no cindex inside
    monkeypatch.delitem(sys.modules, "clang.cindex", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: ModuleSpec(name, None, is_package=True))
    with pytest.raises(FrontendError) as raised:
        libclang.load()
    assert "clang.cindex does not import" in raised.value.what
    assert "clang 21.1.7" in raised.value.what
    assert "libclang 18.1.1" in raised.value.what
    assert "overwrite each other" in raised.value.what


def test_a_library_that_is_too_old_is_told_by_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        """A library without ``clang_visitCXXMethods``, as LLVM 18."""

        def __getattr__(self, name: str) -> object:
            if name == "clang_visitCXXMethods":
                raise AttributeError(name)
            return type("Function", (), {})()

    install(monkeypatch, libclang="18.1.1")
    monkeypatch.setattr(ctypes, "CDLL", lambda path: Old())
    with pytest.raises(FrontendError) as raised:
        libclang.load()
    assert "lacks clang_visitCXXMethods" in raised.value.what
    assert "older than LLVM 21" in raised.value.what
    assert "libclang 18.1.1" in raised.value.what


def test_a_library_that_does_not_load_is_told_with_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise OSError("wrong ELF class")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(FrontendError) as raised:
        libclang.load()
    assert "could not be loaded" in raised.value.what
    assert "wrong ELF class" in raised.value.what


def test_one_package_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, libclang_ng="22.1.4.2")
    assert libclang.installed_packages() == {"libclang-ng": "22.1.4.2"}
    assert libclang.package_report() == "Installed packages that bring clang.cindex: libclang-ng 22.1.4.2."


def test_several_packages_are_a_conflict_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, libclang_ng="22.1.4.2", clang="21.1.7")
    report = libclang.package_report()
    assert "libclang-ng 22.1.4.2, clang 21.1.7" in report
    assert "the last one installed wins" in report


def test_no_package_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    assert "none" in libclang.package_report()


def test_an_error_of_the_frontend_keeps_its_fields_across_processes() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(FrontendError("what failed", "what to try")))
    assert (error.what, error.hint) == ("what failed", "what to try")


def test_the_versions_name_the_library_and_its_package() -> None:
    versions = library_versions()
    assert "clang version" in versions["libclang"]
    assert set(versions) & {"libclang-ng", "libclang", "clang"}
