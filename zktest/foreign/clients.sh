#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clients.sh installs the clients that this folder's tests need besides Go modules: Kazoo and pure-sasl with Debian's Python,
# and Curator with a JDK. On Debian and its derivatives root installs the packages. For other users it unpacks the
# missing packages into the cache folder, where the tests look too, except a JDK, which does not work unpacked.
# If nothing is missing it prints nothing. It fails if something is still missing at the end.
set -eu

packages="python3-kazoo python3-pure-sasl libzookeeper-java libcurator-recipes-java"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockkeeper/foreign-clients

say() { echo "clients.sh: $*" >&2; }

# The same folders as in clients_test.go.
python() { PYTHONPATH="$cache/usr/lib/python3/dist-packages" /usr/bin/python3 -c 'import kazoo, puresasl' 2>/dev/null; }
jar() { [ -e "/usr/share/java/$1.jar" ] || [ -e "$cache/usr/share/java/$1.jar" ]; }

missing() {
	python || echo "Kazoo for /usr/bin/python3, with its login by SASL"
	jar zookeeper && jar slf4j-nop || echo "Java's ZooKeeper client"
	jar curator-recipes || echo "Curator"
	command -v java >/dev/null && command -v javac >/dev/null || echo "a JDK"
}

# wanted prints the packages to install: the missing ones, with their dependencies.
wanted() {
	command -v javac >/dev/null || [ "$(id -u)" != 0 ] || packages="$packages default-jdk-headless"
	apt-get -s -q install --no-upgrade --no-install-recommends $packages | awk '$1 == "Inst" { print $2 }'
}

# resolve sets $names to them. If apt's package lists are missing or outdated, it updates them.
resolve() {
	names=$(wanted) && [ -n "$names" ] && return
	update && names=$(wanted)
}

update() { [ "$(id -u)" = 0 ] && apt-get -q update >&2; }

install() {
	export DEBIAN_FRONTEND=noninteractive
	resolve || return
	apt-get -q install -y --no-upgrade --no-install-recommends $names >&2 ||
		{ update && apt-get -q install -y --no-upgrade --no-install-recommends $names >&2; }
}

unpack() {
	resolve || return
	mkdir -p "$(dirname "$cache")"
	work=$(mktemp -d "$cache.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/deb" "$work/root"
	(cd "$work/deb" && apt-get -q download $names >&2) || return
	for deb in "$work"/deb/*.deb; do dpkg-deb -x "$deb" "$work/root" || return; done
	rm -rf "$cache"
	# A concurrent run may have been faster; its files are the same.
	mv -T "$work/root" "$cache" 2>/dev/null || [ -d "$cache" ]
}

[ -n "$(missing)" ] || exit 0
if command -v apt-get >/dev/null; then
	say "installing $(missing | paste -sd , -)"
	if [ "$(id -u)" = 0 ]; then install; else unpack; fi || say "apt-get failed"
fi
left=$(missing)
[ -z "$left" ] || { echo "$left" | while read -r what; do say "missing: $what"; done; exit 1; }
