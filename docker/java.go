// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// java runs servers as processes of this machine.
type java struct {
	binary    string
	classPath string
}

func findJava(ctx context.Context, logf func(string, ...any)) (choice, error) {
	binary, err := exec.LookPath("java")
	if err != nil {
		return choice{}, err
	}
	cp, err := findJars(ctx, logf)
	if err != nil {
		return choice{}, err
	}
	if err := errors.Join(sweepNamespaces(ctx), sweepFolders()); err != nil {
		return choice{}, fmt.Errorf("remove leftovers of an earlier run: %w", err)
	}
	return choice{backend: &java{binary: binary, classPath: cp}}, nil
}

func (j *java) describe() string { return "Java processes" }

// debianJars is what a server needs of Debian's packages while its admin server
// is off.
var debianJars = []string{
	"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "commons-cli", "commons-io",
	"metrics-core", "snappy-java", "netty-common", "netty-handler", "netty-transport", "netty-buffer", "netty-resolver",
	"netty-codec", "netty-transport-native-epoll", "netty-transport-native-unix-common",
}

// findJars returns the class path of a server, in the order that Options.Backend
// states.
func findJars(ctx context.Context, logf func(string, ...any)) (string, error) {
	if cp := os.Getenv("ZOOKEEPER_CLASSPATH"); cp != "" {
		return cp, nil
	}
	if dir := os.Getenv("ZK_JARS"); dir != "" {
		jars, err := filepath.Glob(filepath.Join(dir, "*.jar"))
		if err != nil || len(jars) == 0 {
			return "", fmt.Errorf("ZK_JARS=%q: no jars: %w", dir, errors.Join(err, os.ErrNotExist))
		}
		return strings.Join(jars, string(os.PathListSeparator)), nil
	}
	if cp, err := debianClassPath("/usr/share/java"); err == nil {
		return cp, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for ZooKeeper's jars: %w", err)
	}
	dir := filepath.Join(cache, "lockkeeper", "zookeeper-jars")
	cp, missing := debianClassPath(dir)
	if missing == nil {
		return cp, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", fmt.Errorf("no ZooKeeper jars: set ZK_JARS or ZOOKEEPER_CLASSPATH: %w", missing)
	}
	logf("zookeeper: downloading its jars from Debian's packages into %s", dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("find a folder for ZooKeeper's jars: %w", err)
	}
	script, err := recipe.ReadFile("zookeeper-local/jars.sh")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", "-s", dir)
	cmd.Stdin = bytes.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("no ZooKeeper jars; set ZK_JARS or ZOOKEEPER_CLASSPATH; downloading Debian's: %w: %s", err, out)
	}
	return debianClassPath(dir)
}

func debianClassPath(dir string) (string, error) {
	var jars []string
	for _, name := range debianJars {
		jar := filepath.Join(dir, name+".jar")
		if _, err := os.Stat(jar); err != nil {
			return "", err
		}
		jars = append(jars, jar)
	}
	return strings.Join(jars, string(os.PathListSeparator)), nil
}

func (j *java) launch(ctx context.Context, p *plan) (nodes []node, remove func() error, err error) {
	var made cleanup
	dir, err := os.MkdirTemp("", folderPrefix+self().process()+"-")
	if err != nil {
		return nil, made.run, err
	}
	made.add(func(context.Context) error { return os.RemoveAll(dir) })
	wires, err := newWiring(ctx, &made, p.count())
	if err != nil {
		p.logf("zookeeper: servers share 127.0.0.1, links cannot be cut: %v", err)
		if wires, err = loopback(p.count(), err); err != nil {
			return nil, made.run, err
		}
	}
	for i := range p.count() {
		pr := &process{id: i + 1, dir: filepath.Join(dir, strconv.Itoa(i+1)), at: wires.places[i].client, wires: wires}
		if p.diskSize > 0 {
			if err := pr.mountDisk(&made, p.diskSize); err != nil {
				return nodes, made.run, err
			}
		}
		if err := pr.prepare(p); err != nil {
			return nodes, made.run, err
		}
		pr.argv = append(append([]string{}, wires.enter(pr.id)...), j.binary,
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
			"-Dorg.slf4j.simpleLogger.showDateTime=true",
			"-Dlogback.configurationFile="+filepath.Join(pr.dir, "logback.xml"))
		pr.argv = append(append(pr.argv, p.jvm...), "-cp", j.classPath,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(pr.dir, "zoo.cfg"))
		made.add(pr.kill)
		nodes = append(nodes, pr)
		if err := pr.start(ctx); err != nil {
			return nodes, made.run, err
		}
	}
	return nodes, made.run, nil
}

// logback keeps the distribution's logger from writing every packet.
const logback = `<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%d %-5p [%t] %c{1} - %m%n</pattern></encoder></appender><root level="INFO"><appender-ref ref="out"/></root></configuration>
`

// mountDisk puts a disk where the server's data will be.
func (pr *process) mountDisk(made *cleanup, size int64) error {
	err := os.MkdirAll(pr.disk(), 0o755)
	if err == nil {
		err = mountMemory(pr.disk(), size)
	}
	if err != nil {
		return fmt.Errorf("disk of server %d: %w", pr.id, err)
	}
	pr.ownDisk = true
	made.add(func(context.Context) error { return unmount(pr.disk()) })
	return nil
}

// unmountDisks takes away what mountDisk has mounted in a folder of servers.
func unmountDisks(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "*", "data"))
	if err != nil {
		return err
	}
	var errs []error
	for _, disk := range found {
		errs = append(errs, unmount(disk))
	}
	return errors.Join(errs...)
}

// prepare writes what the server finds when it starts.
func (pr *process) prepare(p *plan) error {
	_, port, err := net.SplitHostPort(pr.at)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"zoo.cfg":     []byte(p.zooCfg(filepath.Join(pr.dir, "data"), port, pr.wires.places)),
		"logback.xml": []byte(logback),
		"data/myid":   []byte(strconv.Itoa(pr.id)),
	}
	if len(p.counters) > 0 {
		files["data/version-2/"+snapshotName] = snapshot(p.counters)
	}
	for name, content := range files {
		path := filepath.Join(pr.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

const folderPrefix = "lockkeeper-zookeeper-"

// sweepFolders removes the data of runs that were killed.
func sweepFolders() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		if made := ownerOf(filepath.Base(dir), folderPrefix); made != "" && ended(made) {
			errs = append(errs, unmountDisks(dir), os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// ownerOf returns the process in a name made of prefix, process and something
// more, or "".
func ownerOf(name, prefix string) string {
	rest, ok := strings.CutPrefix(name, prefix)
	parts := strings.SplitN(rest, "-", 3)
	if !ok || len(parts) < 3 {
		return ""
	}
	return parts[0] + "-" + parts[1]
}

// wiring is the network of an ensemble's servers.
type wiring struct {
	places []place
	hub    string // the namespace in which the bridges are; "" on 127.0.0.1
	reason error  // why there is no hub
}

// loopback puts all servers on 127.0.0.1.
func loopback(n int, reason error) (*wiring, error) {
	w := &wiring{reason: reason}
	for range n {
		var at [3]string
		for i := range at {
			port, err := freePort()
			if err != nil {
				return nil, err
			}
			at[i] = "127.0.0.1:" + strconv.Itoa(port)
		}
		w.places = append(w.places, place{client: at[0], quorum: at[1], election: at[2]})
	}
	return w, nil
}

// newWiring gives every server a network namespace with two interfaces, for
// clients and for peers. The bridges that join them are in a namespace of their
// own, the hub: a container engine sets the machine's own firewall to drop what is
// forwarded, bridges included, which would partition the servers.
func newWiring(ctx context.Context, made *cleanup, n int) (*wiring, error) {
	if err := canWire(); err != nil {
		return nil, err
	}
	subnets := make([]netip.Prefix, 2)
	for i := range subnets {
		var err error
		if subnets[i], err = drawSubnet(); err != nil {
			return nil, err
		}
	}
	w := &wiring{hub: fmt.Sprintf("%s%s-%08x", namespacePrefix, self().process(), rand.Uint32())}
	namespaces := []string{w.hub}
	for i := range n {
		namespaces = append(namespaces, w.server(i+1))
		peer := host(subnets[1], 11+i).String()
		w.places = append(w.places, place{
			client: host(subnets[0], 11+i).String() + ":2181",
			quorum: peer + ":2888", election: peer + ":3888",
		})
	}
	for _, ns := range namespaces {
		if err := ip(ctx, "", "netns add "+ns); err != nil {
			return nil, err
		}
		made.add(func(ctx context.Context) error { return ip(ctx, "", "netns del "+ns) })
	}
	link := fmt.Sprintf("lk%08x", rand.Uint32())
	if err := ip(ctx, "", fmt.Sprintf("link add %s type veth peer name host netns %s", link, w.hub)); err != nil {
		return nil, err
	}
	// A namespace goes some time after its deletion; the link must be gone with it.
	made.add(func(ctx context.Context) error { return ip(ctx, "", "link del "+link) })
	hub := []string{
		"link add clients type bridge", "link set clients up", "link set host master clients up",
		"link add peers type bridge", "link set peers up",
	}
	for i := range n {
		for _, side := range []string{"clients", "peers"} {
			hub = append(hub,
				fmt.Sprintf("link add %s%d type veth peer name %s netns %s", side, i+1, side, w.server(i+1)),
				fmt.Sprintf("link set %s%d master %s up", side, i+1, side))
		}
	}
	if err := ip(ctx, w.hub, hub...); err != nil {
		return nil, err
	}
	for i := range n {
		err := ip(ctx, w.server(i+1), "link set lo up",
			fmt.Sprintf("addr add %v/24 dev clients", host(subnets[0], 11+i)), "link set clients up",
			fmt.Sprintf("addr add %v/24 dev peers", host(subnets[1], 11+i)), "link set peers up")
		if err != nil {
			return nil, err
		}
	}
	err := ip(ctx, "", fmt.Sprintf("addr add %v/24 dev %s", host(subnets[0], 1), link), "link set "+link+" up")
	return w, err
}

func (w *wiring) server(id int) string { return fmt.Sprintf("%s-%d", w.hub, id) }

// enter returns the beginning of a command line that runs in a server's namespace. It
// replaces itself with the command, so that signals reach the server.
func (w *wiring) enter(id int) []string {
	if w.hub == "" {
		return nil
	}
	return []string{"ip", "netns", "exec", w.server(id)}
}

// plug attaches a server's link to its bridge, or detaches it. While it is detached, both
// ends still have a link, and their packets are lost.
func (w *wiring) plug(ctx context.Context, id int, side string, in bool) error {
	if w.hub == "" {
		return fmt.Errorf("%w: %w", ErrUnsupported, w.reason)
	}
	if !in {
		return ip(ctx, w.hub, fmt.Sprintf("link set %s%d nomaster", side, id))
	}
	return ip(ctx, w.hub, fmt.Sprintf("link set %s%d master %s", side, id, side))
}

const namespacePrefix = "lockkeeper-"

// sweepNamespaces removes the namespaces of runs that were killed; their links go
// with them, and their servers went with their parents.
func sweepNamespaces(ctx context.Context) error {
	paths, err := filepath.Glob("/run/netns/" + namespacePrefix + "*")
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range paths {
		name := filepath.Base(path)
		if made := ownerOf(name, namespacePrefix); made != "" && ended(made) {
			err := ip(ctx, "", "netns del "+name)
			if _, gone := os.Stat(path); gone == nil { // otherwise another sweep has removed it
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// ip runs commands of iproute2's ip in a namespace ("" is this one), one process
// for all.
func ip(ctx context.Context, namespace string, commands ...string) error {
	args := []string{"-batch", "-"}
	if namespace != "" {
		args = append([]string{"-n", namespace}, args...)
	}
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %q: %w: %s", commands, err, bytes.TrimSpace(out))
	}
	return nil
}
