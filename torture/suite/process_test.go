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

// partVariable holds the part that this process plays, if it is not to run tests:
// contenders for locks, in a process of their own, so that they can be stopped.
const partVariable = "LOCKKEEPER_SUITE_PART"

// A part is what a player is told to play.
type part struct {
	Servers []string
	Paths   []string      // of the locks, each of which gets a client of its own
	Timeout time.Duration // of the sessions
	Patient bool          // connections have no deadlines
	Runs    bool          // for elections at the paths, instead of locks
	Reigns  bool          // for elections, too, claiming epochs beside them: see reign
}

// play plays the part and says whether there was one. The player takes the locks
// and says on its standard output, a line each that begins with the lock's index,
// what happens to them. From its standard input it takes the words "write", which
// it obeys for all of its locks without a look at whether it still holds them,
// "unlock" and "commit". It ends when that is closed.
func play(text string) bool {
	if text == "" {
		return false
	}
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	var mu sync.Mutex // guards standard output
	var stage []*contender
	for i, path := range p.Paths {
		c := &contender{part: p, path: path, say: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(i, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
		}}
		stage = append(stage, c)
		go c.play() // ends with the process
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		for _, c := range stage {
			c.obey(in.Text())
		}
	}
	return true
}

// A contender is one session of a player, with one lock.
type contender struct {
	part part
	path string
	say  func(format string, args ...any)

	mu    sync.Mutex // guards what follows
	hold  *lock.Hold
	reign *reign
}

func (c *contender) play() {
	if err := c.contend(); err != nil {
		c.say("failed %v", err)
	}
}

func (c *contender) contend() error {
	ctx := context.Background()
	opts := &recipes.Options{SessionTimeout: c.part.Timeout, Logger: slog.New(slog.DiscardHandler), Trace: &recipes.Trace{
		Waiting:  func(_, _, ahead string) { c.say("waiting for %s", ahead) },
		Rejoined: func(_ string, cause error) { c.say("rejoined: %v", cause) },
	}}
	if c.part.Patient {
		opts.Dial = dialPatiently
	}
	client, err := recipes.Connect(ctx, c.part.Servers, opts)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.part.Runs {
		return c.run(ctx, client)
	}
	if c.part.Reigns {
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
	c.say("granted %d", hold.Token())
	<-hold.Done()
	c.say("told: %v", hold.Err())
	select {}
}

// run leads whenever it can.
func (c *contender) run(ctx context.Context, client *recipes.Client) error {
	e, err := election.New(client, c.path, nil)
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, term *election.Term) error {
		c.say("granted %d", term.Token())
		<-ctx.Done()
		c.say("told: %v", context.Cause(ctx))
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
		c.say("write %d", token)
	case "commit":
		reign.commit(c.say)
	case "unlock":
		c.say("unlocked: %v", hold.Unlock(context.Background()))
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
