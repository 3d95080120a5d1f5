# shellcheck shell=sh
# Sourced by demo, check and .ci/run: finds cargo, and fetches Debian packages where that is possible.

# rustup writes this file; a shell that was open before does not have its PATH yet.
if ! command -v cargo >/dev/null && [ -r "$HOME/.cargo/env" ]; then
    # shellcheck source=/dev/null
    . "$HOME/.cargo/env"
fi
if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust from https://rustup.rs" >&2
    exit 1
fi

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# fetch PACKAGE... : installs Debian packages. If it cannot, it says what to install by hand, and fails.
fetch() {
    if ! command -v apt-get >/dev/null; then
        echo "this system has no apt-get: install by hand what Debian calls: $*" >&2
        return 1
    elif [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        echo "neither root nor sudo: as root, run: apt-get install $*" >&2
        return 1
    fi
    if ! as_root apt-get update -q </dev/null ||
        ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" </dev/null; then
        echo "that did not work: as root, run: apt-get install $*" >&2
        return 1
    fi
}

# Rust links by way of a C compiler.
need_linker() {
    if ! command -v cc >/dev/null; then
        echo "no C linker (cc): fetching gcc and libc6-dev"
        fetch gcc libc6-dev
    fi
}
