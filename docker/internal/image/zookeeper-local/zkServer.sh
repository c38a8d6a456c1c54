#!/bin/sh
# The part of Apache's zkServer.sh that the tests use: start-foreground.
set -e
[ "$1" = start-foreground ] || { echo "usage: zkServer.sh start-foreground" >&2; exit 2; }
archive=
[ -f /opt/zookeeper/zk.jsa ] && archive=-XX:SharedArchiveFile=/opt/zookeeper/zk.jsa
# shellcheck disable=SC2086 # the flags are lists
exec /opt/java/bin/java $archive -Xmx${ZK_SERVER_HEAP:-1000}m \
	-Dorg.slf4j.simpleLogger.showDateTime=true \
	"-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS" \
	$SERVER_JVMFLAGS $JVMFLAGS \
	-cp "$(cat /opt/zookeeper/classpath)" \
	org.apache.zookeeper.server.quorum.QuorumPeerMain "$ZOO_CONF_DIR/zoo.cfg"
