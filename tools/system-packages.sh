#!/bin/sh
# Make sure that QEMU's user mode, a C compiler and Python's venv are there; install them through apt where that is allowed.
set -eu
missing=""
command -v qemu-x86_64 >/dev/null 2>&1 || missing="$missing qemu-user"
command -v cc >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
"${PYTHON:-python3}" -c "import ensurepip" 2>/dev/null || missing="$missing python3-venv"  # Debian's is apart
[ -z "$missing" ] && exit 0
if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root="no"; fi
    if [ "$as_root" != no ]; then
        $as_root apt-get update -qq
        DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
        exit 0
    fi
fi
echo "needed system packages are missing:$missing (names as in Debian); install them, then run make again" >&2
exit 2
