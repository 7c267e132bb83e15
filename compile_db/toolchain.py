"""Where the CUDA, C++ and builtin headers are, found without importing clang, torch or anything NVIDIA ships.

CUDA is looked for in this order: the path given, ``CUDA_HOME`` / ``CUDA_PATH``, the header wheels
(``site-packages/nvidia``), ``/usr/local/cuda``. A path that the caller gives always wins. Layouts from 11.8 to 13 are
known; 13 keeps CUB, Thrust and libcu++ apart in ``include/cccl``.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compile_db.errors import CompileDatabaseError

SHIM = Path(__file__).resolve().parent / "shim"
GCC_DIRECTORY = "/usr/lib/gcc"
OLDEST_CUDA, NEWEST_CUDA = (11, 8), (13, 99)

# What every CUDA unit needs, and what its absence means. Header -> wheel that brings it.
ESSENTIAL_HEADERS = {
    "cuda_runtime.h": "nvidia-cuda-runtime-cu12",
    "cuda_fp16.h": "nvidia-cuda-runtime-cu12",
    "crt/host_defines.h": "nvidia-cuda-nvcc-cu12",
    "crt/math_functions.hpp": "nvidia-cuda-nvcc-cu12",
}
# Library -> (header, what is lost without it).
LIBRARY_HEADERS = {
    "cccl": ("thrust/tuple.h", "kernels that use CUB, Thrust or libcu++ lose the functions that call them"),
    "curand": ("curand_kernel.h", "kernels that draw random numbers (dropout, distributions) have errors inside"),
    "cublas": ("cublas_v2.h", "stand-in types are used; host functions that call cuBLAS are seen in part, no kernel"),
    "cusparse": (
        "cusparse.h",
        "stand-in types are used; host functions that call cuSPARSE are seen in part, no kernel",
    ),
    "cusolver": (
        "cusolverDn.h",
        "stand-in types are used; host functions that call cuSOLVER are seen in part, no kernel",
    ),
    "cufft": ("cufft.h", "host functions that call cuFFT are seen in part, no kernel"),
    "cudnn": ("cudnn.h", "units that call cuDNN are seen in part; frameworks leave them out without cuDNN"),
    "nvtx": ("nvtx3/nvToolsExt.h", "profiling marks are not seen; no kernel"),
}


@dataclass(frozen=True)
class Finding:
    """One thing looked for: where it is, or what it costs not to have it."""

    name: str
    found: bool
    detail: str
    cost_of_absence: str


@dataclass(frozen=True)
class Toolchain:
    """Header locations and versions that a scan uses.

    Parameters
    ----------
    cuda_version : str | None
        ``12.4``; None when there is no CUDA and the shim header stands in.
    cuda_include_dirs : tuple[str, ...]
        In search order.
    cuda_root : str | None
        The toolkit's folder; None for header wheels.
    libdevice : str | None
        ``libdevice.10.bc``. Parsing does not need it.
    resource_dir : str | None
        clang's builtin headers, of libclang's own version.
    cxx_include_dirs, c_include_dirs : tuple[str, ...]
        For information: clang finds the system's by itself. ``cxx_arguments`` says what it must be told.
    cxx_arguments : tuple[str, ...]
        What makes clang use these C++ headers; empty when its own search does.
    llvm_major : int | None
        libclang's major version, by the installed distribution's metadata.
    findings : tuple[Finding, ...]
        For ``opscanner doctor``.
    """

    cuda_version: str | None
    cuda_include_dirs: tuple[str, ...]
    cuda_root: str | None
    libdevice: str | None
    resource_dir: str | None
    cxx_include_dirs: tuple[str, ...]
    c_include_dirs: tuple[str, ...]
    findings: tuple[Finding, ...]
    cxx_arguments: tuple[str, ...] = ()
    llvm_major: int | None = None

    @property
    def shim_dir(self) -> str:
        """Stand-ins for headers that are missing, searched last."""
        return str(SHIM)


@dataclass(frozen=True)
class _Cuda:
    version: tuple[int, int]
    include_dirs: tuple[str, ...]
    root: str | None
    libdevice: str | None
    where: str


def find(
    cuda_path: str | None = None,
    extra_site_packages: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Toolchain:
    """The headers on this machine.

    Parameters
    ----------
    cuda_path : str | None
        A toolkit's folder. When given it must hold a usable toolkit.
    extra_site_packages : Sequence[str]
        Folders searched for wheels before this interpreter's own.
    environment : Mapping[str, str] | None
        Stands in for ``os.environ``.

    Raises
    ------
    CompileDatabaseError
        ``cuda_path`` holds no CUDA headers, or of a version that is not supported.
    """
    site_packages = [*extra_site_packages, *_site_packages()]
    cuda, refused = _find_cuda(cuda_path, site_packages, os.environ if environment is None else environment)
    resource_dir, llvm_major, resource_findings = _find_resource_dir(site_packages)
    cxx_dirs, cxx_arguments, cxx_finding = _find_cxx(site_packages, resource_dir)
    c_dirs = tuple(d for d in ("/usr/local/include", *_multiarch_includes(), "/usr/include") if os.path.isdir(d))
    findings = [*resource_findings, cxx_finding, _c_finding(c_dirs), *_cuda_findings(cuda, refused)]
    findings.append(_cutlass_finding())
    return Toolchain(
        cuda_version=f"{cuda.version[0]}.{cuda.version[1]}" if cuda else None,
        cuda_include_dirs=cuda.include_dirs if cuda else (),
        cuda_root=cuda.root if cuda else None,
        libdevice=cuda.libdevice if cuda else None,
        resource_dir=resource_dir,
        cxx_include_dirs=cxx_dirs,
        c_include_dirs=c_dirs,
        findings=tuple(findings),
        cxx_arguments=cxx_arguments,
        llvm_major=llvm_major,
    )


def _site_packages() -> list[str]:
    paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    spec = importlib.util.find_spec("nvidia")
    if spec is not None:
        paths += [str(Path(place).parent) for place in spec.submodule_search_locations or ()]
    return list(dict.fromkeys(path for path in paths if path))


def _find_cuda(
    cuda_path: str | None, site_packages: Sequence[str], environment: Mapping[str, str]
) -> tuple[_Cuda | None, list[str]]:
    """The first usable CUDA, and why earlier places were refused."""
    if cuda_path is not None:
        found = _toolkit(cuda_path) or _wheels(cuda_path)
        if isinstance(found, str) or found is None:
            raise CompileDatabaseError(
                found or "holds no include/cuda.h", where=cuda_path,
                hint="give the folder that holds include/cuda.h, or leave --cuda-path out to use the header wheels",
            )  # fmt: skip
        return found, []
    refused: list[str] = []
    candidates = [_toolkit(environment[name]) for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    candidates += [_wheels(os.path.join(place, "nvidia")) for place in site_packages]
    candidates += [_toolkit("/usr/local/cuda"), _toolkit("/opt/cuda")]
    incomplete: _Cuda | None = None
    for candidate in candidates:
        if isinstance(candidate, str):
            refused.append(candidate)
        elif candidate is not None:
            missing = [header for header in ESSENTIAL_HEADERS if not _holds(candidate.include_dirs, header)]
            if not missing:
                return candidate, refused
            refused.append(f"{candidate.where} lacks {', '.join(missing)}")
            incomplete = incomplete or candidate
    return None, refused


def _toolkit(root: str) -> _Cuda | str | None:
    """The toolkit at ``root``; a reason when it is refused; None when there is none."""
    for include in (Path(root, "include"), Path(root, "targets", "x86_64-linux", "include")):
        if not (include / "cuda.h").is_file():
            continue
        version = _cuda_version(include / "cuda.h")
        refusal = _refusal(version, root)
        if refusal or version is None:
            return refusal
        parts = [include / "cccl", include] if (include / "cccl").is_dir() else [include]
        libdevice = sorted(Path(root, "nvvm", "libdevice").glob("libdevice*.bc"))
        bitcode = str(libdevice[0]) if libdevice else None
        return _Cuda(version, tuple(map(str, parts)), str(Path(root)), bitcode, str(root))
    return None


def _wheels(nvidia: str) -> _Cuda | str | None:
    """CUDA from header wheels: ``nvidia/cuda_runtime/include`` (11, 12) or ``nvidia/cu13/include``."""
    for folder in sorted(Path(nvidia).glob("cu[0-9][0-9]"), reverse=True):
        found = _toolkit(str(folder))
        if found is not None:
            return found if isinstance(found, str) else _Cuda(
                found.version, found.include_dirs + _wheel_includes(nvidia, ("cudnn",)), None, found.libdevice, nvidia
            )  # fmt: skip
    header = Path(nvidia, "cuda_runtime", "include", "cuda.h")
    if not header.is_file():
        return None
    version = _cuda_version(header)
    refusal = _refusal(version, nvidia)
    if refusal or version is None:
        return refusal
    first = ("cuda_runtime", "cuda_nvcc", "cuda_cccl", "curand")
    rest = tuple(sorted(p.parent.name for p in Path(nvidia).glob("*/include") if p.parent.name not in first))
    libdevice = sorted(Path(nvidia, "cuda_nvcc", "nvvm", "libdevice").glob("libdevice*.bc"))
    bitcode = str(libdevice[0]) if libdevice else None
    return _Cuda(version, _wheel_includes(nvidia, first + rest), None, bitcode, nvidia)


def _wheel_includes(nvidia: str, packages: Sequence[str]) -> tuple[str, ...]:
    places = (Path(nvidia, package, "include") for package in packages)
    return tuple(str(place) for place in places if any(place.glob("*.h")) or any(place.glob("*/*")))


def _cuda_version(header: Path) -> tuple[int, int] | None:
    found = re.search(r"^#define\s+CUDA_VERSION\s+(\d+)", header.read_text(encoding="utf-8", errors="replace"), re.M)
    return (int(found[1]) // 1000, int(found[1]) % 1000 // 10) if found else None


def _refusal(version: tuple[int, int] | None, where: str) -> str | None:
    if version is None:
        return f"{where}: cuda.h does not define CUDA_VERSION"
    if not OLDEST_CUDA <= version <= NEWEST_CUDA:
        return f"{where}: CUDA {version[0]}.{version[1]} is not supported, 11.8 to 13 are"
    return None


def _holds(include_dirs: Sequence[str], header: str) -> bool:
    return any(os.path.isfile(os.path.join(place, header)) for place in include_dirs)


def _find_resource_dir(site_packages: Sequence[str]) -> tuple[str | None, int | None, list[Finding]]:
    cost = "stddef.h and the CUDA wrapper are missing: almost nothing parses"
    name, version = _libclang_distribution()
    major = int(version.split(".")[0]) if version else None
    library = Finding(
        "libclang", version is not None, f"{name} {version}" if version else "no libclang distribution installed",
        "nothing can be parsed: pip install libclang-ng==22.1.4.2",
    )  # fmt: skip
    spec = importlib.util.find_spec("clang")  # finds, does not import: clang/__init__.py is not run
    places = [Path(place, "native", "resource") for place in (spec.submodule_search_locations or () if spec else ())]
    places += [Path(place, "clang", "native", "resource") for place in site_packages]
    if major is not None:
        places += [Path(f"/usr/lib/llvm-{major}/lib/clang/{major}"), Path(f"/usr/lib/clang/{major}")]
    for place in places:
        if (place / "include" / "stddef.h").is_file():
            return str(place), major, [library, Finding("builtin headers", True, str(place), cost)]
    return None, major, [library, Finding("builtin headers", False, "not in the libclang wheel", cost)]


def _libclang_distribution() -> tuple[str | None, str | None]:
    for name in ("libclang-ng", "libclang", "clang"):
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None, None


def _find_cxx(
    site_packages: Sequence[str], resource_dir: str | None
) -> tuple[tuple[str, ...], tuple[str, ...], Finding]:
    """The C++ library: the system's libstdc++, or else the libc++ that comes with libclang-ng."""
    cost = "no standard header is found: no unit parses"
    gcc_dirs = sorted(Path(GCC_DIRECTORY).glob("*/*/"), key=lambda place: _number(place.name), reverse=True)
    for position, gcc in enumerate(place for place in gcc_dirs if place.name[:1].isdigit()):
        include = Path("/usr/include/c++", gcc.name)
        if (include / "vector").is_file():
            machine = Path("/usr/include", gcc.parent.name, "c++", gcc.name)
            # clang takes the newest gcc folder, even one without C++ headers; then it must be told.
            arguments = () if position == 0 else (f"--gcc-install-dir={gcc}",)
            return (str(include), str(machine)), arguments, Finding("C++ headers", True, f"libstdc++ {gcc.name}", cost)
    for place in site_packages:
        libcxx = Path(place, "clang", "native", "libcxx")
        if (libcxx / "vector").is_file():
            # The CUDA wrapper's <cmath> and friends stand before libc++, as clang's own driver orders them.
            wrappers = ("-isystem", f"{resource_dir}/include/cuda_wrappers") if resource_dir else ()
            # CUDA 12 refuses libc++ on x86 unless told, and Thrust names its inline namespace, gone since LLVM 19.
            macros = ("-D_ALLOW_UNSUPPORTED_LIBCPP", "-D_VSTD=std")
            arguments = ("-nostdinc++", *wrappers, "-isystem", str(libcxx), *macros)
            return (str(libcxx),), arguments, Finding("C++ headers", True, f"libc++ in {libcxx}", cost)
    return (), (), Finding("C++ headers", False, "no libstdc++ and no libc++: apt install libstdc++-12-dev", cost)


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _multiarch_includes() -> list[str]:
    name = sysconfig.get_config_var("MULTIARCH")
    return [f"/usr/include/{name}"] if name else []


def _c_finding(c_dirs: Sequence[str]) -> Finding:
    cost = "the C++ library includes C headers: no unit parses"
    found = _holds(c_dirs, "stdlib.h")
    return Finding("C headers", found, ", ".join(c_dirs) if found else "no stdlib.h: apt install libc6-dev", cost)


def _cuda_findings(cuda: _Cuda | None, refused: Sequence[str]) -> list[Finding]:
    cost = "a shim header stands in: simple kernels parse, PyTorch's and TensorFlow's do not"
    wheels = "pip install 'opscanner[cuda-headers]'"
    if cuda is None:
        why = "; ".join(refused) if refused else "no toolkit and no header wheels"
        return [Finding("CUDA headers", False, f"{why}: {wheels}", cost)]
    findings = [Finding("CUDA headers", True, f"CUDA {cuda.version[0]}.{cuda.version[1]}, {cuda.where}", cost)]
    findings += [Finding("CUDA elsewhere", False, reason, "none: another one is used") for reason in refused]
    findings.append(Finding("libdevice", cuda.libdevice is not None, cuda.libdevice or "not there", "none for parsing"))
    for name, (header, loss) in LIBRARY_HEADERS.items():
        found = _holds(cuda.include_dirs, header)
        findings.append(Finding(f"{name} headers", found, header if found else f"no {header}", loss))
    return findings


def _cutlass_finding() -> Finding:
    spec = importlib.util.find_spec("cutlass_library")
    places = list(spec.submodule_search_locations or ()) if spec else []
    cost = "PyTorch's attention kernels do not parse, unless the checkout holds third_party/cutlass"
    detail = (
        places[0] if places else "not there: pip install --no-deps nvidia-cutlass==3.4.1.0 (for PyTorch 2.2 to 2.6)"
    )
    return Finding("CUTLASS headers", bool(places), detail, cost)
