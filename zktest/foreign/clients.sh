#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clients.sh: the clients that this folder's tests run and that Go does not bring: Kazoo with Debian's own Python,
# zkCli and Curator with a JDK. On Debian and its like, root installs the packages; whoever is not root gets what is
# missing unpacked into the cache folder, where the tests look too, except a JDK, which does not work unpacked.
# Where everything is there it says nothing. It fails when something is missing in the end.
set -eu

packages="python3-kazoo libzookeeper-java libcurator-recipes-java"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockkeeper/foreign-clients

say() { echo "clients.sh: $*" >&2; }

# The same places as in clients_test.go.
python() { PYTHONPATH="$cache/usr/lib/python3/dist-packages" /usr/bin/python3 -c 'import kazoo' 2>/dev/null; }
jar() { [ -e "/usr/share/java/$1.jar" ] || [ -e "$cache/usr/share/java/$1.jar" ]; }

missing() {
	python || echo "Kazoo for /usr/bin/python3"
	jar zookeeper && jar slf4j-nop || echo "Java's ZooKeeper client"
	jar curator-recipes || echo "Curator"
	command -v java >/dev/null && command -v javac >/dev/null || echo "a JDK"
}

# wanted names the packages to get: all that these need and that is not there.
wanted() {
	command -v javac >/dev/null || [ "$(id -u)" != 0 ] || packages="$packages default-jdk-headless"
	apt-get -s -q install --no-upgrade --no-install-recommends $packages | awk '$1 == "Inst" { print $2 }'
}

# resolve leaves them in $names. Lists of packages that are old or not there at all are a reason to get new ones.
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
	# Whoever comes second finds the first one's, which are the same.
	mv -T "$work/root" "$cache" 2>/dev/null || [ -d "$cache" ]
}

[ -n "$(missing)" ] || exit 0
if command -v apt-get >/dev/null; then
	say "getting $(missing | paste -sd , -)"
	if [ "$(id -u)" = 0 ]; then install; else unpack; fi || say "apt-get failed"
fi
left=$(missing)
[ -z "$left" ] || { echo "$left" | while read -r what; do say "missing: $what"; done; exit 1; }
