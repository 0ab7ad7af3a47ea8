"""Build the C++ cores; everything else about the package is in pyproject.toml."""

from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension, build_ext
from setuptools import setup
from setuptools.errors import CompileError

# Without vectors of neighbouring members: loading two at once waits for the two stores before it (a tenth of the time).
# A profile (-fprofile-use, of gzip and awk on five machines) gains 7 to 8 % in order, out of order -5 to 6 %, on perl,
# sqlite, lz4 and k_matmul (GCC 12, AMD EPYC (Zen 5) VM, busy, 2026-11-27): not worth three times the build.
# -march=native loses 0 to 7 % without a CPI stack, and gains -7 to 12 % with one (base, zen4, cortex-a53 on perl and
# k_matmul; Zen 4, 2026-11-28).
FLAGS = ["-O3", "-fno-tree-slp-vectorize", "-fno-plt", "-g0", "-Wall", "-Wextra"]
PARTS = "uarch/timing/core/parts.cpp"  # a third of the time; a checkout alone has them, to test them and to try them
CORES = {
    "uarch.timing._core": Path("uarch/timing/core"),
    "tracegen.live_points._core": Path("tracegen/live_points/core"),
}


class BuildCore(build_ext):  # type: ignore[misc]  # pybind11's helpers carry no types
    """Compile both cores at once, the largest files first; say in one line where nothing can be compiled."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = True

    def run(self) -> None:
        checkout = self.inplace or self.editable_mode
        for extension in self.extensions:
            if PARTS in extension.sources and checkout:
                extension.define_macros.append(("PERFVEC_PARTS", None))
            elif PARTS in extension.sources:
                extension.sources.remove(PARTS)
        super().run()

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except CompileError as error:
            raise SystemExit(
                f"error: the simulator's core did not compile ({error}); a C++17 compiler is needed: "
                "g++ 9 or clang++ 10 or newer (Debian: apt install g++), CXX names another"
            ) from error


with ParallelCompile("NPY_NUM_BUILD_JOBS"):
    setup(
        ext_modules=[
            Pybind11Extension(
                name,
                sorted(map(str, core.rglob("*.cpp")), key=lambda path: (-Path(path).stat().st_size, path)),
                depends=sorted(str(path) for path in core.rglob("*.hpp")),
                cxx_std=17,
                extra_compile_args=FLAGS,
            )
            for name, core in CORES.items()
        ],
        cmdclass={"build_ext": BuildCore},
    )
