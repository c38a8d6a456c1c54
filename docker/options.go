// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options describes the ensemble to start. The zero value, and nil, mean one server with the
// defaults. Run copies what it needs.
type Options struct {
	// Servers is 1 (the default), 3 or 5. With ZK_SERVERS it is what the tests
	// need at least; zero then accepts any number.
	Servers int

	// Tick is ZooKeeper's unit of time, in whole milliseconds. Default 200 ms:
	// sessions of 400 ms to 60 s. Servers that ZK_SERVERS names keep theirs.
	Tick time.Duration

	// SyncLimit is how many ticks a follower may be out of touch with its leader,
	// or a leader with its quorum, before it stops serving. Default 10: 2 s at the
	// default Tick.
	SyncLimit int

	// Backend is "docker" (containers, through the engine that testcontainers-go
	// finds) or "java" (processes of this machine); "" picks, see the package
	// comment.
	//
	// "java" takes ZooKeeper's jars from ZOOKEEPER_CLASSPATH (a class path), from the
	// folder ZK_JARS, from /usr/share/java (Debian's libzookeeper-java) or, on Debian,
	// from that package downloaded and unpacked into the user's cache. The cache also has
	// an archive of the classes that servers load: the first start takes seconds longer,
	// each other one a third less. Without root its servers share 127.0.0.1 and cannot be
	// partitioned: Partition, Isolate and Heal return ErrUnsupported.
	Backend string

	// Properties are Java system properties of every server, name to value, such
	// as "zookeeper.snapCount". They are added to the package's own and override them:
	// a znode.container.checkIntervalMs of 1000, so that empty container nodes are
	// deleted within a test. Neither names nor values may contain blanks.
	Properties map[string]string

	// Config holds further lines of zoo.cfg, "key=value". A key that the package
	// sets itself is overridden.
	Config []string

	// Files are further files of every server by name, such as a JAAS configuration or a
	// keystore. The text {files} in values of Properties, in Config and in the files themselves
	// stands for their folder.
	Files map[string][]byte

	// Counters maps paths that exist at the start to the counter from which the
	// names of their sequential children continue: 2147483645 makes the next one
	// …2147483645. Parents are made, all with an open ACL and no data.
	Counters map[string]int32

	// DiskSize gives each server its own disk, in memory and of that many bytes, which
	// [Server.FillDisk] can fill. Java processes need root and Linux for it. Zero means
	// that the servers' data are on the machine's disk.
	DiskSize int64

	// Log receives the choice of backend and the progress, one line a call. Without it
	// Run logs nothing; Start logs to its test.
	Log func(format string, args ...any)

	_ struct{}
}

// plan is Options, checked and completed: what a backend builds.
type plan struct {
	servers   int // 0: any number, for servers that exist
	tick      time.Duration
	syncLimit int
	backend   string
	jvm       []string // -Dname=value, sorted
	config    []string
	files     map[string][]byte
	counters  map[string]int32
	diskSize  int64
	logf      func(format string, args ...any)
}

func (o *Options) plan() (*plan, error) {
	if o == nil {
		o = &Options{}
	}
	p := &plan{
		servers: o.Servers, tick: o.Tick, syncLimit: o.SyncLimit, backend: o.Backend,
		config: slices.Clone(o.Config), files: maps.Clone(o.Files), counters: maps.Clone(o.Counters), diskSize: o.DiskSize, logf: o.Log,
	}
	switch p.servers {
	case 0, 1, 3, 5:
	default:
		return nil, fmt.Errorf("%d servers: must be 1, 3 or 5", p.servers)
	}
	if p.diskSize < 0 || p.diskSize > 0 && p.diskSize < 8<<20 {
		return nil, fmt.Errorf("disks of %d bytes: must be 8 MiB at least", p.diskSize)
	}
	if p.tick == 0 {
		p.tick = 200 * time.Millisecond
	}
	if p.tick < time.Millisecond || p.tick%time.Millisecond != 0 {
		return nil, fmt.Errorf("tick %v: must be a positive number of whole milliseconds", p.tick)
	}
	if p.syncLimit == 0 {
		p.syncLimit = 10
	}
	if p.syncLimit < 1 {
		return nil, fmt.Errorf("sync limit %d: must be positive", p.syncLimit)
	}
	switch p.backend {
	case "", "docker", "java":
	default:
		return nil, fmt.Errorf("backend %q: must be docker or java", p.backend)
	}
	for _, line := range p.config {
		key, _, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(key) == "" || strings.ContainsAny(line, "\r\n") {
			return nil, fmt.Errorf("config %q: must be one line, key=value", line)
		}
	}
	props := map[string]string{"znode.container.checkIntervalMs": "1000"}
	maps.Copy(props, o.Properties)
	for _, name := range slices.Sorted(maps.Keys(props)) {
		arg := "-D" + name + "=" + props[name]
		// The images pass them through a shell that splits at blanks and may
		// expand what looks like a pattern.
		if name == "" || strings.ContainsAny(arg, " \t\r\n*?[") || strings.Contains(name, "=") {
			return nil, fmt.Errorf("property %q=%q: must not hold blanks or patterns", name, props[name])
		}
		p.jvm = append(p.jvm, arg)
	}
	for name := range p.files {
		if name == "" || strings.ContainsAny(name, "/\\ \t\r\n") || name[0] == '.' || slices.Contains(ownFiles, name) {
			return nil, fmt.Errorf("file %q: must be a name, and none of %s", name, strings.Join(ownFiles, ", "))
		}
	}
	for path := range p.counters {
		if err := checkPath(path); err != nil {
			return nil, fmt.Errorf("counter: %w", err)
		}
	}
	if p.logf == nil {
		p.logf = func(string, ...any) {}
	}
	return p, nil
}

// ownFiles are the names of the files that the package itself writes for a server.
var ownFiles = []string{"zoo.cfg", "logback.xml", "data", "log"}

// filesFolder is the text that stands for the folder of Options.Files.
const filesFolder = "{files}"

// jvmIn returns the arguments of a server whose files are in folder.
func (p *plan) jvmIn(folder string) []string {
	args := slices.Clone(p.jvm)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], filesFolder, folder)
	}
	return args
}

// filesIn returns the files of Options.Files, as they are in folder.
func (p *plan) filesIn(folder string) map[string][]byte {
	files := make(map[string][]byte, len(p.files))
	for name, content := range p.files {
		files[name] = bytes.ReplaceAll(content, []byte(filesFolder), []byte(folder))
	}
	return files
}

// count is the number of servers to start.
func (p *plan) count() int { return max(p.servers, 1) }

func checkPath(path string) error {
	bad := !strings.HasPrefix(path, "/") || strings.HasPrefix(path+"/", "/zookeeper/")
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		bad = bad || segment == "" || segment == "." || segment == ".."
	}
	if bad {
		return errors.New("path " + fmt.Sprintf("%q", path) + ": must be absolute, below / and without empty segments")
	}
	return nil
}

// place contains the addresses of one server. Clients dial client; the other servers dial
// quorum and election.
type place struct {
	client, quorum, election string // host:port
}

// zooCfg returns a server's zoo.cfg, which both images use if it exists. It has no "bind"
// address for clients: a server answers on all of its interfaces. files is the folder of
// Options.Files.
func (p *plan) zooCfg(dataDir, clientPort, files string, places []place) string {
	set := []string{
		"dataDir=" + dataDir,
		"clientPort=" + clientPort,
		fmt.Sprintf("tickTime=%d", p.tick.Milliseconds()),
		fmt.Sprintf("syncLimit=%d", p.syncLimit),
		"initLimit=20",
		"maxClientCnxns=0",
		"maxSessionTimeout=60000",
		"4lw.commands.whitelist=*",
		"admin.enableServer=false",
		// Data need not survive a loss of power.
		"forceSync=no",
		// A server that starts while it is partitioned must not exit. By default it does so
		// after three attempts to bind an address that it does not have yet.
		"electionPortBindRetry=0",
	}
	overridden := make(map[string]bool)
	for _, line := range p.config {
		key, _, _ := strings.Cut(line, "=")
		overridden[strings.TrimSpace(key)] = true
	}
	var b strings.Builder
	for _, line := range set {
		if key, _, _ := strings.Cut(line, "="); !overridden[key] {
			fmt.Fprintln(&b, line)
		}
	}
	for _, line := range p.config {
		fmt.Fprintln(&b, strings.ReplaceAll(line, filesFolder, files))
	}
	if len(places) > 1 { // a line for the only server would be ignored with a warning
		for i, at := range places {
			_, port, _ := strings.Cut(at.election, ":")
			fmt.Fprintf(&b, "server.%d=%s:%s\n", i+1, at.quorum, port)
		}
	}
	return b.String()
}
