// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/docker/internal/image"
)

// java runs servers as processes of this machine.
type java struct {
	binary    string
	classPath string
	archive   string // of the classes that a server loads, "" without
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
	j := &java{binary: binary, classPath: cp}
	archive, slow := j.findArchive(ctx)
	j.archive = archive
	left := sweepFolders()
	if namespacesAvailable() == nil {
		left = errors.Join(left, sweepNamespaces(ctx))
	}
	return choice{backend: j, left: left, slow: slow}, nil
}

func (j *java) describe() string { return "Java processes" }

// debianJars are the jars of Debian's packages that a server needs while its admin server is
// disabled.
var debianJars = []string{
	"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "commons-cli", "commons-io",
	"metrics-core", "snappy-java", "netty-common", "netty-handler", "netty-transport", "netty-buffer", "netty-resolver",
	"netty-codec", "netty-transport-native-epoll", "netty-transport-native-unix-common",
}

// findJars returns the class path of a server, from the first source of Options.Backend that
// has it.
func findJars(ctx context.Context, logf func(string, ...any)) (string, error) {
	if cp := os.Getenv("ZOOKEEPER_CLASSPATH"); cp != "" {
		return absolute(cp)
	}
	if dir := os.Getenv("ZK_JARS"); dir != "" {
		cp, err := absolute(filepath.Join(dir, "*"))
		if err == nil && cp == "" {
			err = os.ErrNotExist
		}
		if err != nil {
			return "", fmt.Errorf("ZK_JARS=%q: no jars: %w", dir, err)
		}
		return cp, nil
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
	script, err := image.Recipe.ReadFile("zookeeper-local/jars.sh")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", "-s", dir)
	cmd.Stdin = bytes.NewReader(script)
	endWithContext(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("no ZooKeeper jars; set ZK_JARS or ZOOKEEPER_CLASSPATH; downloading Debian's: %w: %s", err, out)
	}
	return debianClassPath(dir)
}

// absolute returns a class path for servers, which run in other folders than this process, with the jars that a "*" stands for.
func absolute(classPath string) (string, error) {
	var files []string
	for _, entry := range filepath.SplitList(classPath) {
		file, err := filepath.Abs(entry)
		if err != nil {
			return "", err
		}
		if filepath.Base(entry) != "*" {
			files = append(files, file)
			continue
		}
		jars, err := filepath.Glob(file + ".jar")
		if err != nil {
			return "", err
		}
		files = append(files, jars...)
	}
	return strings.Join(files, string(os.PathListSeparator)), nil
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
	layout, err := newLayout(ctx, &made, p.count())
	if err != nil {
		p.logf("zookeeper: servers share 127.0.0.1 and cannot be partitioned: %v", err)
		if layout, err = loopback(p.count(), err); err != nil {
			return nil, made.run, err
		}
	}
	for i := range p.count() {
		pr := &process{id: i + 1, dir: filepath.Join(dir, strconv.Itoa(i+1)), at: layout.places[i].client, layout: layout}
		if p.diskSize > 0 {
			if err := pr.mountDisk(&made, p.diskSize); err != nil {
				return nodes, made.run, err
			}
		}
		if err := pr.prepare(p); err != nil {
			return nodes, made.run, err
		}
		pr.argv = append(append([]string{}, layout.enter(pr.id)...), j.binary,
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
			"-Dorg.slf4j.simpleLogger.showDateTime=true",
			"-Dlogback.configurationFile="+filepath.Join(pr.dir, "logback.xml"))
		if j.archive != "" {
			pr.argv = append(pr.argv, "-XX:SharedArchiveFile="+j.archive)
		}
		pr.argv = append(append(pr.argv, p.jvmIn(pr.dir)...), "-cp", j.classPath,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(pr.dir, "zoo.cfg"))
		made.add(pr.kill)
		nodes = append(nodes, pr)
		if err := pr.start(ctx); err != nil {
			return nodes, made.run, err
		}
	}
	return nodes, made.run, nil
}

// logback configures the logger of Apache's distribution, which by default logs every packet.
const logback = `<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%d %-5p [%t] %c{1} - %m%n</pattern></encoder></appender><root level="INFO"><appender-ref ref="out"/></root></configuration>
`

// mountDisk mounts a disk as the folder of the server's data.
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

// unmountDisks unmounts the disks in a folder of servers.
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

// prepare writes the server's files.
func (pr *process) prepare(p *plan) error {
	_, port, err := net.SplitHostPort(pr.at)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"zoo.cfg":     []byte(p.zooCfg(filepath.Join(pr.dir, "data"), port, pr.dir, pr.layout.places)),
		"logback.xml": []byte(logback),
		"data/myid":   []byte(strconv.Itoa(pr.id)),
	}
	maps.Copy(files, p.filesIn(pr.dir))
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

// sweepFolders removes the data of killed runs.
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
