# Sourced by demo and check: finds cargo, and fetches Debian packages where that is possible.

# rustup writes this file; a shell that was open before does not have its PATH yet.
if ! command -v cargo >/dev/null && [ -r "$HOME/.cargo/env" ]; then
    # shellcheck source=/dev/null
    . "$HOME/.cargo/env"
fi
if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust from https://rustup.rs" >&2
    exit 1
fi

# fetch PACKAGE... : installs Debian packages. Says why not, and fails, if it cannot.
fetch() {
    if ! command -v apt-get >/dev/null; then
        echo "this system has no apt-get: install by hand what Debian calls: $*" >&2
        return 1
    elif [ "$(id -u)" = 0 ]; then
        set -- env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
        apt-get update -q && "$@" </dev/null
    elif command -v sudo >/dev/null; then
        set -- env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
        sudo apt-get update -q && sudo "$@" </dev/null
    else
        echo "neither root nor sudo: install by hand, as root: apt-get install $*" >&2
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
