#!/bin/sh
# Takes the official image's ZOO_* variables. An existing zoo.cfg or myid wins.
set -euf
cfg=$ZOO_CONF_DIR/zoo.cfg
if [ ! -e "$cfg" ]; then
	cat >"$cfg" <<-EOF
		dataDir=$ZOO_DATA_DIR
		dataLogDir=$ZOO_DATA_LOG_DIR
		tickTime=$ZOO_TICK_TIME
		initLimit=$ZOO_INIT_LIMIT
		syncLimit=$ZOO_SYNC_LIMIT
		maxClientCnxns=$ZOO_MAX_CLIENT_CNXNS
		standaloneEnabled=$ZOO_STANDALONE_ENABLED
		admin.enableServer=$ZOO_ADMINSERVER_ENABLED
		autopurge.snapRetainCount=$ZOO_AUTOPURGE_SNAPRETAINCOUNT
		autopurge.purgeInterval=$ZOO_AUTOPURGE_PURGEINTERVAL
	EOF
	# One word, one line, as there; -f keeps a '*' as it is.
	printf '%s\n' ${ZOO_SERVERS:-'server.1=localhost:2888:3888;2181'} ${ZOO_CFG_EXTRA:-} >>"$cfg"
	words=${ZOO_4LW_COMMANDS_WHITELIST:-}
	[ -z "$words" ] || echo "4lw.commands.whitelist=$words" >>"$cfg"
fi
[ -e "$ZOO_DATA_DIR/myid" ] || echo "${ZOO_MY_ID:-1}" >"$ZOO_DATA_DIR/myid"
exec "$@"
