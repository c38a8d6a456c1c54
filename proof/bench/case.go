// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A benchCase measures one thing. Each is a variable in its own file, and stands in the table.
type benchCase struct {
	name    string
	about   string // what its numbers mean for a user
	servers []int  // sizes of the ensembles on which it runs
	round   func(r *round) error
}

// A round is one execution of a case on one ensemble. Its values are compared with each other only.
type round struct {
	context.Context
	bench  *bench
	of     *benchCase
	number int
	addrs  []string // of the servers of ZooKeeper
	doc    *document
	values map[valueKey]float64
	root   string // of the lock service

	asked map[string]int64 // four-letter words, by server

	mu       sync.Mutex // guards what follows
	cleanups []func()
	paths    int
}

// add adds a value of the round.
func (r *round) add(library, metric string, v float64) {
	r.values[valueKey{len(r.addrs), library, metric}] = v
}

// compare adds the ratio of a library's value to another library's, both of this round. A rate is better if it is greater.
func (r *round) compare(metric string, libraries []string, other string) {
	base, found := r.values[valueKey{len(r.addrs), other, metric}]
	for _, library := range libraries {
		if v, measured := r.values[valueKey{len(r.addrs), library, metric}]; measured && found && base != 0 {
			r.add(library, metric+"/"+other, v/base)
		}
	}
}

// cleanup has f called at the end of the round, the last one first.
func (r *round) cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *round) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	r.cleanups = nil
}

// path returns a path that nothing has used.
func (r *round) path() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths++
	return fmt.Sprintf("/bench-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), r.paths)
}

// server returns the address of the i-th server, counted around.
func (r *round) server(i int) string { return r.addrs[i%len(r.addrs)] }

// size returns n, or less in a short run. In a test it is very little.
func (r *round) size(n, short int) int {
	if r.bench.only != nil {
		return min(short, 3)
	}
	if r.bench.short {
		return short
	}
	return n
}

// during returns d, or less in a short run.
func (r *round) during(d time.Duration) time.Duration {
	if r.bench.only != nil {
		return d / 100
	}
	if r.bench.short {
		return d / 4
	}
	return d
}

// progress reports what the round does.
func (r *round) progress(format string, args ...any) {
	r.bench.progress("%s, %d %s, round %d: %s", r.of.name, len(r.addrs), plural(len(r.addrs), "server"), r.number, fmt.Sprintf(format, args...))
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// until waits until done reports true, and returns its error or the context's.
func (r *round) until(what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(r, 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); err != nil || ok {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

// each calls f for 0 to n-1, on at most 64 goroutines, and returns the errors.
func each(n int, f func(i int) error) error {
	var running sync.WaitGroup
	errs, slots := make([]error, n), make(chan struct{}, 64)
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			errs[i] = f(i)
			<-slots
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// together calls f for 0 to n-1, each on a goroutine, and returns the errors.
func together(n int, f func(i int) error) error {
	var running sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		running.Go(func() { errs[i] = f(i) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// parent creates a node of that path.
func (r *round) parent(path string) error {
	conn, err := r.admin()
	if err == nil {
		_, err = conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// admin returns the connection of an operator, which the rounds on an ensemble share.
func (r *round) admin() (*zk.Conn, error) { return r.bench.admin(r.addrs[0]) }

// median returns the median of values, which it sorts.
func median[T int64 | float64 | time.Duration](values []T) T { return quantile(values, 0.5) }

// quantile returns a quantile of values, which it sorts; 0 if there are none.
func quantile[T int64 | float64 | time.Duration](values []T, q float64) (v T) {
	if len(values) == 0 {
		return v
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
