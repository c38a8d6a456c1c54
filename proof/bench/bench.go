// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// A bench runs cases.
type bench struct {
	ctx     context.Context
	short   bool
	profile bool
	root    string // folder of the repository
	out     string // folder of documents and profiles
	log     io.Writer
	only    []string // libraries of a test, nil for all

	mu        sync.Mutex                          // guards admins, and closing while libraries open
	zookeeper starter                             // starts an ensemble
	admins    map[string]func() (*zk.Conn, error) // connect once, by the address of the server
	servers   map[string]started                  // by kind and number
	ensembles map[string]*docker.Ensemble         // of real servers, by their first address
	closing   []func() error
	step      string
}

// A starter starts n servers and returns their addresses.
type starter func(ctx context.Context, n int) (addrs []string, stop func() error, err error)

// A started is the outcome of the first start of servers.
type started struct {
	addrs []string
	err   error
}

// rounds is how often each case runs.
func (b *bench) rounds() int {
	if b.short {
		return 1
	}
	return 3
}

func (b *bench) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(b.log, "bench %s: %s\n", b.step, fmt.Sprintf(format, args...))
}

// run runs cases and writes a document for each. It continues after one that fails, and returns their errors, and those that did not
// fail.
func (b *bench) run(run []*benchCase) (succeeded []*benchCase, err error) {
	trees, err := verdict.Trees()
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, c := range run {
		b.step = fmt.Sprintf("%d of %d", i+1, len(run))
		d := &document{
			Schema: schema, Case: c.name, Started: time.Now().UTC().Truncate(time.Second), Short: b.short, Trees: trees, Go: runtime.Version(),
			Machine: fmt.Sprintf("%d cores, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH), Again: b.again(c.name),
		}
		if err := b.measure(c, d); err != nil {
			d.Failed = err.Error()
			errs = append(errs, fmt.Errorf("%s: %w: repeat it with: %s", c.name, err, d.Again))
			b.progress("%v", errs[len(errs)-1])
			if b.ctx.Err() != nil {
				break
			}
		} else {
			succeeded = append(succeeded, c)
		}
		d.Took = significant(time.Since(d.Started).Seconds())
		if err := d.write(b.out); err != nil {
			return nil, err
		}
	}
	return succeeded, errors.Join(errs...)
}

func (b *bench) again(name string) string {
	short := ""
	if b.short {
		short = " SHORT=1"
	}
	return fmt.Sprintf("make bench RUN='^%s$'%s", name, short)
}

// measure runs the rounds of a case. The ensembles are all started before the first round.
func (b *bench) measure(c *benchCase, d *document) error {
	stop := func() {}
	if b.profile {
		var err error
		if stop, err = profileTo(b.profileOf(c.name)); err != nil {
			return err
		}
	}
	defer stop()
	for _, n := range c.servers {
		if err := b.on(n, d); err != nil {
			return err
		}
	}
	for number := range b.rounds() {
		for _, n := range c.servers {
			addrs, _ := b.start("zookeeper", n, b.zookeeper) // it was started above
			r := b.round(c, number+1, addrs, d)
			r.progress("begin")
			if err := r.run(); err != nil {
				return fmt.Errorf("%d %s, round %d: %w", n, plural(n, "server"), r.number, err)
			}
			d.keep(r.values)
		}
	}
	return nil
}

// round returns a round without values.
func (b *bench) round(c *benchCase, number int, addrs []string, d *document) *round {
	return &round{Context: b.ctx, bench: b, of: c, number: number, addrs: addrs, doc: d, values: map[valueKey]float64{}, asked: map[string]int64{}}
}

// roundLimit bounds a round, so that one that hangs does not keep the other cases from running.
const roundLimit = 15 * time.Minute

// run runs the round. One that takes too long is left alone: its libraries are closed.
func (r *round) run() error {
	ctx, cancel := context.WithTimeoutCause(r.Context, roundLimit, fmt.Errorf("not done after %v", roundLimit))
	defer cancel()
	r.Context = ctx
	ended := make(chan error, 1)
	go func() {
		labelled(ctx, ours, func() { ended <- r.of.round(r) })
	}()
	defer r.end()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select { // most of what a round calls ends with its context
	case err := <-ended:
		return errors.Join(context.Cause(ctx), err)
	case <-time.After(10 * time.Second):
	}
	return context.Cause(ctx)
}

// labelled runs f for a library, whose name the profile has for f and for all goroutines that it starts.
func labelled(ctx context.Context, library string, f func()) {
	pprof.Do(ctx, pprof.Labels("library", library), func(context.Context) { f() })
}

// profileTo writes a CPU profile until stop is called. With no file it does nothing.
func profileTo(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

func (b *bench) profileOf(name string) string { return filepath.Join(b.out, name+".pprof") }

// top returns the functions that used most of the time of our library in a case, in all processes.
func (b *bench) top(name string) string {
	files, err := filepath.Glob(b.profileOf(name + "*"))
	if err != nil {
		return err.Error()
	}
	out, err := exec.Command("go", append([]string{"tool", "pprof", "-top", "-nodecount=15", "-tagfocus=library=" + ours}, files...)...).Output()
	if err != nil {
		return fmt.Sprintf("go tool pprof: %v", err)
	}
	return string(out)
}

// on starts an ensemble of n servers, unless it runs, and names it in the document.
func (b *bench) on(n int, d *document) error {
	addrs, err := b.start("zookeeper", n, b.zookeeper)
	if err != nil {
		return err
	}
	answer, err := fourLetter(b.ctx, addrs[0], "srvr")
	version, _, _ := strings.Cut(strings.TrimPrefix(answer, "Zookeeper version: "), "-")
	d.name("ZooKeeper " + version)
	return err
}

// startZooKeeper starts an ensemble of real servers. Those that are Java processes get more memory than tests need: thousands of
// joins list the queue at the same time.
func (b *bench) startZooKeeper(ctx context.Context, n int) ([]string, func() error, error) {
	if err := os.Setenv("_JAVA_OPTIONS", "-Xmx2g"); err != nil {
		return nil, nil, err
	}
	e, err := docker.Run(ctx, &docker.Options{
		Servers:   n,
		Config:    []string{fmt.Sprintf("maxSessionTimeout=%d", crowdQuiet.Milliseconds())},
		SyncLimit: 50, // a busy machine does not change the leader
		// An empty queue is not deleted between two cycles, nor do rounds of a case differ by that.
		Properties: map[string]string{"znode.container.checkIntervalMs": "3600000"},
	})
	if err != nil {
		return nil, nil, err
	}
	b.ensembles[e.Addrs()[0]] = e
	return e.Addrs(), e.Close, nil
}

// name adds what the case runs on.
func (d *document) name(what string) {
	if !slices.Contains(d.On, what) {
		d.On = append(d.On, what)
	}
}

// admin returns the connection of an operator to a server.
func (b *bench) admin(server string) (*zk.Conn, error) {
	b.mu.Lock()
	open := b.admins[server]
	if open == nil {
		open = sync.OnceValues(func() (*zk.Conn, error) { return dialBare(b.ctx, server, quiet, new(traffic)) })
		b.admins[server] = open
		b.closing = append(b.closing, func() error {
			if conn, err := open(); err == nil {
				conn.Close()
			}
			return nil
		})
	}
	b.mu.Unlock()
	return open()
}

// start starts servers of a kind once. An error is returned again.
func (b *bench) start(kind string, n int, by starter) ([]string, error) {
	key := fmt.Sprint(kind, n)
	s, known := b.servers[key]
	if !known {
		b.progress("start %s, %d %s", kind, n, plural(n, "server"))
		var stop func() error
		s.addrs, stop, s.err = by(b.ctx, n)
		if s.err == nil {
			b.closing = append(b.closing, stop)
		}
		b.servers[key] = s
	}
	return s.addrs, s.err
}

// lacking notes a library that this machine cannot run, and returns nil. In CI, and for any other error, it returns the error.
func (r *round) lacking(library string, err error) error {
	if need.CI() || !errors.Is(err, stores.ErrNotInstalled) && !errors.Is(err, contender.ErrNotInstalled) {
		return fmt.Errorf("%s: %w", library, err)
	}
	left := fmt.Sprintf("%s: %v", library, err)
	if !slices.Contains(r.doc.Left, left) {
		r.doc.Left = append(r.doc.Left, left)
		r.progress("left out: %s", left)
	}
	return nil
}

// open opens libraries until the end of the round. Those that are lacking are named and left out.
func (r *round) open(libraries []library, s setup) (map[string]*opened, error) {
	all := map[string]*opened{}
	for _, l := range libraries {
		if r.bench.only != nil && !slices.Contains(r.bench.only, l.name) {
			continue
		}
		var o *opened
		var err error
		labelled(r, l.name, func() { o, err = l.open(r, s) })
		if err == nil {
			cycle := o.cycle
			o.cycle = func(n int) (c cycles, err error) {
				labelled(r, l.name, func() { c, err = cycle(n) })
				return c, err
			}
			all[l.name] = o
			r.cleanup(o.close)
		} else if err := r.lacking(l.name, err); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// close ends all servers.
func (b *bench) close() error {
	var errs []error
	for _, f := range slices.Backward(b.closing) {
		errs = append(errs, f())
	}
	b.closing = nil
	return errors.Join(errs...)
}

// newBench returns a bench without servers.
func newBench(ctx context.Context, out string, log io.Writer) *bench {
	b := &bench{
		ctx: ctx, out: out, log: log, step: "0", admins: map[string]func() (*zk.Conn, error){}, servers: map[string]started{}, ensembles: map[string]*docker.Ensemble{},
	}
	b.zookeeper = b.startZooKeeper
	return b
}

// names returns the names of opened libraries, sorted.
func names(all map[string]*opened) []string { return slices.Sorted(maps.Keys(all)) }
