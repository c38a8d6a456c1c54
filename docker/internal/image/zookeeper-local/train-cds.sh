#!/bin/sh
# Runs a server once so that the JVM can archive the classes that it loads.
set -e
java -Xshare:dump -XX:+UseSerialGC >/dev/null
mkdir /tmp/cds
printf 'dataDir=/tmp/cds\nclientPort=2181\nadmin.enableServer=false\n' >/tmp/cds.cfg
java -XX:+UseSerialGC -Xmx128m -XX:ArchiveClassesAtExit=/opt/zookeeper/zk.jsa \
	-cp "$(cat /opt/zookeeper/classpath)" \
	org.apache.zookeeper.server.quorum.QuorumPeerMain /tmp/cds.cfg >/dev/null 2>&1 &
pid=$!
i=0
until echo srvr | nc -w 1 127.0.0.1 2181 2>/dev/null | grep -q Mode; do
	i=$((i + 1))
	[ $i -lt 100 ] || exit 1
	sleep 0.1
done
kill -TERM $pid
wait $pid || true
rm -rf /tmp/cds /tmp/cds.cfg
test -s /opt/zookeeper/zk.jsa
