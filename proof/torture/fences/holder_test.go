// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var holding = child.New("holder", holder.hold)

// A holder is a separate process: it acquires a lock, writes through each guard, and is stopped by its parent in between.
type holder struct {
	Servers  []string
	Timeout  time.Duration // of its session
	Lock     string        // path
	State    string        // path of a node that it writes by Commit; none if empty
	Resource string        // behind each guard
	Guards   []guardSpec
	Within   bool // with one guard: each write stays between check and write until a line is read
}

// A holderReport is a report of a holder, one line of JSON.
type holderReport struct {
	Granted fencing.Token `json:",omitempty"` // the lock is held
	Within  string        `json:",omitempty"` // kind of guard: a write through it is between check and write
	Write   string        `json:",omitempty"` // kind of guard: a write through it has returned
	Held    bool          `json:",omitempty"` // the holder held the lock at its last check before that write
	Waits   bool          `json:",omitempty"` // the holder has checked, and waits for a line
	Error   string        `json:",omitempty"` // of the write
	Stale   *fencing.StaleError
	Lost    bool `json:",omitempty"` // it wraps recipes.ErrLost
}

// hold is the main function of a holder. It reports its grant, writes once, and once more for each line that it reads. It checks
// whether it still holds the lock before it waits for that line, not after: the test stops it in between, as any program can be
// stopped there.
func (h holder) hold() error {
	var mu sync.Mutex // guards standard output
	report := func(r holderReport) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(r) // a test that stops reading has killed this process
	}
	lines := bufio.NewScanner(os.Stdin)

	ctx := context.Background()
	client, err := recipes.Connect(ctx, h.Servers, &recipes.Options{SessionTimeout: h.Timeout})
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := lock.New(client, h.Lock, nil)
	if err != nil {
		return err
	}
	held, err := mutex.Lock(ctx)
	if err != nil {
		return err
	}
	report(holderReport{Granted: held.Token()})

	type writing struct {
		kind  string
		write func(value string) error
	}
	var all []writing
	for _, d := range h.Guards {
		within := func() {}
		if h.Within {
			within = func() {
				report(holderReport{Within: d.Kind})
				lines.Scan()
			}
		}
		o, err := d.open(within)
		if err != nil {
			return err
		}
		all = append(all, writing{d.Kind, func(value string) error { return o.Write(ctx, h.Resource, held.Token(), value) }})
	}
	if h.State != "" {
		all = append(all, writing{"zookeeper", func(value string) error {
			for {
				_, err := held.Commit(ctx, &zk.SetDataRequest{Path: h.State, Data: []byte(value), Version: -1})
				if !errors.Is(err, recipes.ErrUncertain) {
					return err
				}
			}
		}})
	}
	holds := func() bool {
		select {
		case <-held.Done():
			return false
		default:
			return true
		}
	}
	write := func(value string, checked bool) {
		var writes sync.WaitGroup
		for _, w := range all {
			writes.Go(func() {
				r := holderReport{Write: w.kind, Held: checked}
				if err := w.write(value); err != nil {
					r.Error = err.Error()
					_ = errors.As(err, &r.Stale)
					r.Lost = errors.Is(err, recipes.ErrLost)
				}
				report(r)
			})
		}
		writes.Wait()
	}
	write("value of the older holder", holds())
	for {
		checked := holds()
		report(holderReport{Waits: true})
		if !lines.Scan() {
			return lines.Err()
		}
		write("stale value of the older holder", checked)
	}
}
