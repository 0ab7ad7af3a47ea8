"""QEMU's processor and the C library's thresholds as this computer's, so that both run the same code.

Programs and libraries choose among variants of their functions by CPUID. QEMU's `max` has every feature that QEMU
emulates; with the vendor, family and model of this computer, and without the features that it lacks, a program chooses
as it does here. Thresholds that glibc computes from cache sizes are handed over. What QEMU cannot do is listed; OpenSSL
and glibc are told here to do without it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uarch.host.told import Told

# Features that QEMU's `max` has and a processor may lack, by QEMU's name → the kernel's.
_MAY_LACK = {
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi1": "bmi1",
    "bmi2": "bmi2",
    "movbe": "movbe",
    "erms": "erms",
    "fsrm": "fsrm",
    "lzcnt": "abm",
    "aes": "aes",
    "pclmulqdq": "pclmulqdq",
    "adx": "adx",
    "sse4a": "sse4a",
    "3dnow": "3dnow",
    "3dnowext": "3dnowext",
    "la57": "la57",
}
# Features that programs choose by and QEMU 7.2 lacks.
_QEMU_LACKS = ("sha_ni", "vaes", "vpclmulqdq", "avx512f", "gfni", "fsrm")
# Words 2 and 3 of OPENSSL_ia32cap(3): SHA extensions, VAES and VPCLMULQDQ; the parts of AVX-512.
_OPENSSL_WITHOUT, _OPENSSL_AVX512 = 0x600_2000_0000, 0xC023_0000
_GLIBC_AVX512 = "glibc.cpu.hwcaps=-AVX512F,-AVX512BW,-AVX512VL"
_TUNABLES = ("x86_data_cache_size", "x86_shared_cache_size", "x86_non_temporal_threshold", "x86_rep_movsb_threshold")
_LOADER = Path("/lib64/ld-linux-x86-64.so.2")


@dataclass(frozen=True)
class HostCpu:
    """`here` and `emulated` are variables for a program on this computer and in QEMU; `lacking`: features without."""

    here: Mapping[str, str]
    emulated: Mapping[str, str]
    lacking: tuple[str, ...]


def matched(told: Told) -> HostCpu:
    """Variables of the environment with which a program runs the same code in QEMU as on this computer."""
    family, model, stepping = told.numbers
    without = [f"{name}=off" for name, kernel in _MAY_LACK.items() if kernel not in told.features]
    cpu = ",".join(
        ["max", f"vendor={told.vendor}", f"family={family}", f"model={model}", f"stepping={stepping}", *without]
    )
    here: dict[str, str] = {}
    disabled = _OPENSSL_WITHOUT
    emulated = {"OPENSSL_ia32cap": f":~{disabled:#x}", "QEMU_CPU": cpu}
    if "avx512f" in told.features:
        here["GLIBC_TUNABLES"] = _GLIBC_AVX512
        disabled |= _OPENSSL_AVX512
    here["OPENSSL_ia32cap"] = f":~{disabled:#x}"
    tunables = ":".join(f"glibc.cpu.{name}={value:#x}" for name, value in _thresholds(here).items())
    if tunables:
        emulated["GLIBC_TUNABLES"] = tunables
    return HostCpu(here, emulated, tuple(name for name in _QEMU_LACKS if name in told.features))


def _thresholds(here: Mapping[str, str]) -> dict[str, int]:
    """The values that this computer's C library has for _TUNABLES with the variables `here`; none where it does not
    tell.
    """
    try:
        run = subprocess.run(
            [str(_LOADER), "--list-tunables"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GLIBC_TUNABLES": "", **here},
        )
    except OSError:
        return {}
    found = dict(re.findall(r"^glibc\.cpu\.(\w+): (0x[0-9a-f]+|\d+)", run.stdout, re.MULTILINE))
    return {name: int(found[name], 0) for name in _TUNABLES if name in found and int(found[name], 0) > 0}
