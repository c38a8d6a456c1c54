#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# chromium.sh gets headless Chromium from the packages of Debian and its derivatives, for the tests of this folder. It
# unpacks the package and those libraries that are not installed into the cache folder, where the tests look, and installs
# nothing. If Chromium is there already it prints nothing. It fails if Chromium does not run at the end.
set -eu

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockkeeper/chromium
program=$cache/usr/lib/chromium/chromium-headless-shell

say() { echo "chromium.sh: $*" >&2; }

# The same programs as in browser_test.go.
runs() {
	for name in chromium-headless-shell chromium; do command -v "$name" >/dev/null && return; done
	[ -x "$program" ] && LD_LIBRARY_PATH=$(libraries) "$program" --version >/dev/null 2>&1
}

libraries() { for folder in "$cache"/usr/lib/*-linux-gnu*; do printf '%s:%s/pulseaudio:' "$folder" "$folder"; done; }

wanted() {
	apt-get -s -q install --no-install-recommends chromium-headless-shell fonts-dejavu-core | awk '$1 == "Inst" { print $2 }'
}

# resolve sets $names to the packages. If apt's package lists are missing or outdated, it updates them.
resolve() {
	names=$(wanted) && [ -n "$names" ] && return
	[ "$(id -u)" = 0 ] && apt-get -q update >&2 && names=$(wanted)
}

download() { (cd "$work/deb" && apt-get -q download $names >&2); }

unpack() {
	resolve || return
	mkdir -p "$(dirname "$cache")"
	work=$(mktemp -d "$cache.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/deb" "$work/root"
	download || { [ "$(id -u)" = 0 ] && apt-get -q update >&2 && resolve && download; } || return
	for deb in "$work"/deb/*.deb; do dpkg-deb -x "$deb" "$work/root" || return; done
	rm -rf "$cache"
	# A concurrent run may have been faster; its files are the same.
	mv -T "$work/root" "$cache" 2>/dev/null || [ -d "$cache" ]
}

runs && exit
if command -v apt-get >/dev/null; then
	say "getting Chromium"
	unpack || say "apt-get failed"
fi
runs || { say "missing: Chromium: install the package chromium-headless-shell"; exit 1; }
