// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A contenderTask configures a contender process: a process can be stopped.
type contenderTask struct {
	Servers  []string
	Path     string
	Timeout  time.Duration // of the session
	Election bool          // contend for an election instead of a lock
	Epochs   bool          // likewise, and claim an epoch in each term: see reign
	Patient  bool          // connections have no deadlines
}

// A held is a [lock.Hold] or an [election.Term].
type held interface {
	Token() fencing.Token
	Done() <-chan struct{}
	Err() error
}

// contending makes a process a contender of package contender. It also executes these commands, without a check whether it
// still holds:
//
//	write    write TOKEN
//	commit   committed ERROR: see reign
var contending = child.New("contender", func(task contenderTask) error {
	ctx := context.Background()
	opts := &recipes.Options{SessionTimeout: task.Timeout, Logger: slog.New(slog.DiscardHandler), Trace: &recipes.Trace{
		Waiting:  func(e recipes.QueueEvent) { contender.Report("waiting %s", e.Ahead) },
		Rejoined: func(e recipes.QueueEvent) { contender.Report("rejoined %v", e.Err) },
	}}
	if task.Patient {
		opts.Dial = dialPatiently
	}
	client, err := recipes.Connect(ctx, task.Servers, opts)
	if err != nil {
		return err
	}
	defer client.Close()
	var (
		claim   held
		release func(context.Context) error
		leader  reign
	)
	return contender.Serve(map[string]func([]string) (string, error){
		"acquire": func([]string) (string, error) {
			var err error
			if task.Election || task.Epochs {
				var term *election.Term
				if term, err = campaign(ctx, client, task.Path); err == nil {
					claim, release = term, term.Resign
				}
				if err == nil && task.Epochs {
					leader, err = newReign(ctx, client, task.Path, term)
				}
			} else {
				var hold *lock.Hold
				if hold, err = acquire(ctx, client, task.Path); err == nil {
					claim, release = hold, hold.Unlock
				}
			}
			if err != nil {
				return "", err
			}
			go func() { // ends with the process
				<-claim.Done()
				contender.Report("lost %v", claim.Err())
			}()
			return fmt.Sprint("acquired ", int64(claim.Token())), nil
		},
		"release": func([]string) (string, error) { return "released", release(ctx) },
		"write":   func([]string) (string, error) { return fmt.Sprint("write ", int64(claim.Token())), nil },
		"commit": func([]string) (string, error) {
			leader.commit(ctx)
			return "", nil
		},
	})
})

func acquire(ctx context.Context, client *recipes.Client, path string) (*lock.Hold, error) {
	m, err := lock.New(client, path, nil)
	if err != nil {
		return nil, err
	}
	return m.Lock(ctx)
}

func campaign(ctx context.Context, client *recipes.Client, path string) (*election.Term, error) {
	e, err := election.New(client, path, nil)
	if err != nil {
		return nil, err
	}
	return e.Campaign(ctx)
}

// contender starts a contender process, which begins to acquire and is killed when the test ends.
func (s *env) contender(task contenderTask) *contender.Process {
	s.T.Helper()
	if task.Servers == nil {
		task.Servers = s.ensemble.Addrs()
	}
	p := contender.Start(s.T, contending.Command(s.T.Context(), task))
	p.Send("acquire")
	return p
}

// tokenOf waits for an event with a token.
func tokenOf(p *contender.Process, word string) fencing.Token { return fencing.Token(p.Number(word)) }

// patient is a connection on which nothing comes too late. While a process is
// stopped its timers run; while a machine is suspended they stand still, and what
// lies in its sockets is read when it wakes.
type patient struct{ net.Conn }

func dialPatiently(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return patient{conn}, err
}

func (patient) SetReadDeadline(time.Time) error { return nil }
