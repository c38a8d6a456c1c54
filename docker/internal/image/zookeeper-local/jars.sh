#!/bin/sh
# jars.sh DIR [RELEASE]: ZooKeeper's jars from Debian's packages, which are downloaded and
# unpacked but never installed. DIR must not exist; it is there complete or not at all.
# RELEASE is a release of Debian; the default is that of this machine.
set -eu
dir=$1
work=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM # a signal alone would skip the one above
mkdir "$work/deb" "$work/x" "$work/jars"
chmod 755 "$work" "$work/deb"
release=${2:-}
if [ -n "$release" ]; then
	# A separate configuration of apt, so that the machine's packages stay those of its release.
	mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/apt/parts"
	mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1)
	: >"$work/apt/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >"$work/apt/sources.list"
	cat >"$work/apt/apt.conf" <<-EOF
		Dir::Etc::SourceList "$work/apt/sources.list";
		Dir::Etc::SourceParts "$work/apt/parts";
		Dir::Etc::Preferences "$work/apt/none";
		Dir::Etc::PreferencesParts "$work/apt/parts";
		Dir::State "$work/apt";
		Dir::State::Status "$work/apt/status";
		Dir::Cache "$work/apt";
		APT::Sandbox::User "root";
	EOF
	export APT_CONFIG="$work/apt/apt.conf"
	apt-get -q update >/dev/null
fi
cd "$work/deb"
# The sandbox user of apt could not write here; asking for root keeps root's runs
# free of a warning, and changes nothing for others.
apt-get -q -o APT::Sandbox::User=root download libzookeeper-java libslf4j-java \
	libcommons-cli-java libcommons-io-java libdropwizard-metrics-java libsnappy-java libnetty-java \
	libjetty9-java libservlet-api-java libjackson2-core-java libjackson2-databind-java \
	libjackson2-annotations-java >/dev/null
for d in *.deb; do dpkg-deb -x "$d" "$work/x"; done
for j in zookeeper zookeeper-jute slf4j-api slf4j-simple commons-cli commons-io metrics-core \
	snappy-java netty-common netty-handler netty-transport netty-buffer netty-resolver netty-codec \
	netty-transport-native-epoll netty-transport-native-unix-common jetty9-server jetty9-servlet \
	jetty9-security jetty9-util jetty9-util-ajax jetty9-http jetty9-io servlet-api \
	jackson-core jackson-databind jackson-annotations; do
	cp -L "$work/x/usr/share/java/$j.jar" "$work/jars/$j.jar"
done
# A second process finds the files of the first, which are the same.
mv -T "$work/jars" "$dir" 2>/dev/null || test -e "$dir/zookeeper.jar"
