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
	Resource string        // behind each door
	Doors    []guardSpec
	Within   bool // each write through its one door stays between check and write until it hears a line
}

// A holderReport is a report of a holder, one line of JSON.
type holderReport struct {
	Granted fencing.Token `json:",omitempty"` // the lock is held
	Within  string        `json:",omitempty"` // the write through the door of this kind is between check and write
	Write   string        `json:",omitempty"` // the write through the door of this kind has returned
	Held    bool          `json:",omitempty"` // when the holder last looked before that write, it held the lock
	Waits   bool          `json:",omitempty"` // it has looked, and waits for a line
	Error   string        `json:",omitempty"` // what it returned
	Stale   *fencing.StaleError
	Lost    bool `json:",omitempty"` // it wraps recipes.ErrLost
}

// hold is the main function of a holder. It reports its grant, writes once, and once more for each line that it reads. It checks whether it still
// holds the lock before it waits for that line, not after: it is stopped in between, as every program can be.
func (h holder) hold() error {
	var saying sync.Mutex // guards standard output
	say := func(r holderReport) {
		saying.Lock()
		defer saying.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(r) // a test that stops reading has killed this process
	}
	lines := bufio.NewScanner(os.Stdin)

	ctx := context.Background()
	client, err := recipes.Connect(ctx, h.Servers, &recipes.Options{SessionTimeout: h.Timeout})
	if err != nil {
		return err
	}
	defer client.Close()
	mu, err := lock.New(client, h.Lock, nil)
	if err != nil {
		return err
	}
	held, err := mu.Lock(ctx)
	if err != nil {
		return err
	}
	say(holderReport{Granted: held.Token()})

	type writing struct {
		kind  string
		write func(value string) error
	}
	var all []writing
	for _, d := range h.Doors {
		within := func() {}
		if h.Within {
			within = func() {
				say(holderReport{Within: d.Kind})
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
	write := func(value string, look bool) {
		var writes sync.WaitGroup
		for _, w := range all {
			writes.Go(func() {
				r := holderReport{Write: w.kind, Held: look}
				if err := w.write(value); err != nil {
					r.Error = err.Error()
					_ = errors.As(err, &r.Stale)
					r.Lost = errors.Is(err, recipes.ErrLost)
				}
				say(r)
			})
		}
		writes.Wait()
	}
	write("the older one's", holds())
	for {
		look := holds()
		say(holderReport{Waits: true})
		if !lines.Scan() {
			return lines.Err()
		}
		write("the older one's, late", look)
	}
}
