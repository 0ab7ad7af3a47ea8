#!/bin/sh
# Make sure that QEMU's user mode, C and C++ compilers, Python's venv and headers are there; install them through apt where
# that is allowed.
# With `chromium` only that browser and its driver, for the tests, which do without where it cannot be had.
set -eu
missing=""
if [ "${1:-}" = chromium ]; then
    command -v chromedriver >/dev/null 2>&1 || missing="chromium chromium-driver"
else
    command -v qemu-x86_64 >/dev/null 2>&1 || missing="$missing qemu-user"
    command -v cc >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
    command -v "${CXX:-c++}" >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1 || command -v clang++ >/dev/null 2>&1 || missing="$missing g++"
    "${PYTHON:-python3}" -c "import ensurepip" 2>/dev/null || missing="$missing python3-venv"  # Debian's is apart
    "${PYTHON:-python3}" -c "import os.path as p, sysconfig as s, sys; sys.exit(not p.exists(p.join(s.get_path('include'), 'Python.h')))" || missing="$missing python3-dev"
fi
[ -z "$missing" ] && exit 0
if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root="no"; fi
    if [ "$as_root" != no ]; then
        export DEBIAN_FRONTEND=noninteractive
        $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null && exit 0
    fi
fi
if [ "${1:-}" = chromium ]; then
    echo "chromium and chromedriver are missing; the tests of pages are skipped" >&2
    exit 0
fi
echo "needed system packages are missing:$missing (names as in Debian); install them, then run make again" >&2
exit 2
