#!/bin/sh
# build.sh [TAG [RELEASE]]: a ZooKeeper image without a registry, from Debian's packages
# and the runtime of the JDK on PATH (17 or later, with its jmods). RELEASE is the release
# of Debian that ZooKeeper comes from: trixie has 3.9. The default is that of this machine.
set -eu
for tool in docker jlink apt-get dpkg-deb; do
	command -v "$tool" >/dev/null || {
		echo "build.sh: $tool is missing: it takes Docker, a JDK 17 with jlink (openjdk-17-jdk-headless) and Debian's apt" >&2
		exit 1
	}
done
tag=${1:-zookeeper-local:3.8-2}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
r=$work/rootfs

mkdir -p "$r/bin" "$r/etc" "$r/tmp" "$r/opt/zookeeper" "$r/usr/local/bin" \
	"$r/conf" "$r/data" "$r/datalog" "$r/logs"
chmod 1777 "$r/tmp"

"$here/jars.sh" "$r/opt/zookeeper/lib" ${2:+"$2"}
# Unpacked like the jars, not installed.
mkdir "$work/deb"
chmod 755 "$work" "$work/deb"
(
	cd "$work/deb"
	apt-get -q -o APT::Sandbox::User=root download busybox-static >/dev/null
	dpkg-deb -x busybox-static*.deb "$work/x"
)
(cd "$r" && ls opt/zookeeper/lib/*.jar | sed 's,^,/,' | paste -sd: >opt/zookeeper/classpath)

# -f: what is on PATH may be a link to a link.
jdk=$(dirname "$(dirname "$(readlink -f "$(command -v jlink)")")")
"$jdk/bin/jlink" --module-path "$jdk/jmods" --output "$r/opt/java" --vm server \
	--add-modules java.base,java.desktop,java.management,java.naming,java.security.jgss,java.security.sasl,java.sql,jdk.crypto.ec,jdk.management,jdk.security.auth,jdk.security.jgss,jdk.unsupported \
	--strip-java-debug-attributes --no-header-files --no-man-pages
find "$r/opt/java" -type f \( -name '*.so' -o -path '*/bin/*' \) -exec ldd {} + 2>/dev/null |
	awk '$2 == "=>" && $3 ~ /^\/(usr\/)?lib/ {print $3} $1 ~ /^\/lib.*ld-/ {print $1}' |
	grep -v /jvm/ | sort -u | while read -r so; do
	mkdir -p "$r$(dirname "$so")"
	cp -L "$so" "$r$so"
done

cp "$work/x/bin/busybox" "$r/bin/busybox"
for a in sh awk cat echo grep hostname ip kill ls mkdir nc ping printf ps rm sleep test timeout; do
	ln -s busybox "$r/bin/$a"
done
printf 'root:x:0:0::/:/bin/sh\nzookeeper:x:1000:1000::/:/bin/sh\n' >"$r/etc/passwd"
printf 'root:x:0:\nzookeeper:x:1000:\n' >"$r/etc/group"
echo 'hosts: files dns' >"$r/etc/nsswitch.conf"
install -m 755 "$here/docker-entrypoint.sh" "$r/docker-entrypoint.sh"
install -m 755 "$here/zkServer.sh" "$here/train-cds.sh" "$r/usr/local/bin/"

cp "$here/Dockerfile" "$work/"
# Owners are named here and not set above, which would take root.
tar -C "$r" --numeric-owner --owner=0 --group=0 -cf "$work/rootfs.tar" \
	--exclude=./conf --exclude=./data --exclude=./datalog --exclude=./logs .
tar -C "$r" --numeric-owner --owner=1000 --group=1000 -rf "$work/rootfs.tar" ./conf ./data ./datalog ./logs
rm -rf "$r" "$work/x" "$work/deb"
# The classic builder: with BuildKit some clients want a plugin that Debian lacks.
DOCKER_BUILDKIT=0 docker build -q -t "$tag" "$work"
