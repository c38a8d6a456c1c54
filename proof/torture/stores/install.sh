#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh: the servers that tests run and that Go does not bring: PostgreSQL, MariaDB with Galera, Redis, etcd,
# Prometheus and Kerberos, from the packages of Debian and its like. Root installs them; for other users it prints what to install. No
# service is started by that, now or at a boot: tests run servers of their own.
# Where everything is there it says nothing. It fails when something is missing in the end.
set -eu

say() { echo "install.sh: $*" >&2; }

# The same places as in find.go and galera.go.
found() {
	for file in "$(command -v "$1")" /usr/sbin/"$1" /usr/lib/postgresql/*/bin/"$1"; do [ ! -x "$file" ] || return 0; done
	return 1
}

missing() {
	found postgres && found initdb || echo postgresql
	found mariadbd || echo mariadb-server-core # the server without its service
	[ -e /usr/lib/galera/libgalera_smm.so ] || [ -e /usr/lib64/galera-4/libgalera_smm.so ] || echo galera-4
	found redis-server || echo redis-server
	found etcd || echo etcd-server
	found prometheus && found promtool || echo prometheus
	found krb5kdc && found kdb5_util || echo krb5-kdc
	found kadmin.local || echo krb5-admin-server
}

# What the packages would start, this forbids for as long as they are being installed. A policy that is there already is
# the machine's own.
policy=/usr/sbin/policy-rc.d

forbid() {
	[ -e "$policy" ] || [ -L "$policy" ] || {
		trap 'rm -f "$policy"' EXIT
		trap 'exit 1' HUP INT TERM
		printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
	}
}

install() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-upgrade --no-install-recommends $1 >&2 || return
	command -v systemctl >/dev/null || return 0
	for service in $1; do # what has one of this name: it is new, like its package
		[ "$service" != etcd-server ] || service=etcd
		[ ! -e "/lib/systemd/system/$service.service" ] || systemctl -q disable "$service" >&2 || say "still enabled: $service"
	done
}

names=$(missing | paste -sd ' ' -)
[ -n "$names" ] || exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
	say "getting $names"
	forbid
	# Lists of packages that are old or not there at all are a reason to get new ones.
	install "$names" || { apt-get -q update >&2 && install "$names"; } || say "apt-get failed"
fi
left=$(missing | paste -sd ' ' -)
[ -z "$left" ] || { say "missing: as root, apt-get install $left"; exit 1; }
