// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// workerVariable holds the workerSpec of this process if it is a contender process
// instead of a test run: contenders in a separate process can be stopped.
const workerVariable = "LOCKKEEPER_SUITE_WORKER"

// A workerSpec configures a contender process.
type workerSpec struct {
	Servers []string
	Paths   []string      // of the locks, each with its own client
	Timeout time.Duration // of the sessions
	Patient bool          // connections have no deadlines
	Runs    bool          // for elections at the paths, instead of locks
	Reigns  bool          // for elections whose leaders also claim epochs: see reign
}

// play runs the contenders of a workerSpec, and reports whether there was one. It acquires
// the locks and writes their events to its standard output, in lines that begin with the
// lock's index. From its standard input it reads the commands "write", which it obeys for
// all of its locks without a check whether it still holds them, "unlock" and "commit". It
// ends when its standard input is closed.
func play(text string) bool {
	if text == "" {
		return false
	}
	var p workerSpec
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	var mu sync.Mutex // guards standard output
	var env []*contender
	for i, path := range p.Paths {
		c := &contender{workerSpec: p, path: path, report: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(i, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
		}}
		env = append(env, c)
		go c.play() // ends with the process
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		for _, c := range env {
			c.obey(in.Text())
		}
	}
	return true
}

// A contender is one session of a player, with one lock.
type contender struct {
	workerSpec workerSpec
	path       string
	report     func(format string, args ...any)

	mu    sync.Mutex // guards what follows
	hold  *lock.Hold
	reign *reign
}

func (c *contender) play() {
	if err := c.contend(); err != nil {
		c.report("failed %v", err)
	}
}

func (c *contender) contend() error {
	ctx := context.Background()
	opts := &recipes.Options{SessionTimeout: c.workerSpec.Timeout, Logger: slog.New(slog.DiscardHandler), Trace: &recipes.Trace{
		Waiting:  func(_, _, ahead string) { c.report("waiting for %s", ahead) },
		Rejoined: func(_ string, cause error) { c.report("rejoined: %v", cause) },
	}}
	if c.workerSpec.Patient {
		opts.Dial = dialPatiently
	}
	client, err := recipes.Connect(ctx, c.workerSpec.Servers, opts)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.workerSpec.Runs {
		return c.run(ctx, client)
	}
	if c.workerSpec.Reigns {
		return c.lead(ctx, client)
	}
	m, err := lock.New(client, c.path, nil)
	if err != nil {
		return err
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.hold = hold
	c.mu.Unlock()
	c.report("granted %d", hold.Token())
	<-hold.Done()
	c.report("notified: %v", hold.Err())
	select {}
}

// run leads whenever it can.
func (c *contender) run(ctx context.Context, client *recipes.Client) error {
	e, err := election.New(client, c.path, nil)
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, term *election.Term) error {
		c.report("granted %d", term.Token())
		<-ctx.Done()
		c.report("notified: %v", context.Cause(ctx))
		return ctx.Err()
	})
}

func (c *contender) obey(word string) {
	c.mu.Lock()
	hold, reign := c.hold, c.reign
	c.mu.Unlock()
	var token fencing.Token
	if hold != nil {
		token = hold.Token()
	}
	switch word {
	case "write":
		c.report("write %d", token)
	case "commit":
		reign.commit(c.report)
	case "unlock":
		c.report("unlocked: %v", hold.Unlock(context.Background()))
	}
}

// patient is a connection on which nothing comes too late. While a process is
// stopped its timers run; while a machine is suspended they stand still, and what
// lies in its sockets is read when it wakes.
type patient struct{ net.Conn }

func dialPatiently(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return patient{conn}, err
}

func (patient) SetReadDeadline(time.Time) error { return nil }
