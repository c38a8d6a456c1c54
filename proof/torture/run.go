// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// A run is one run of the torture.
type run struct {
	opts   *Options
	time   clock.Scale
	clocks clocks
	result *verdict.Result

	servers      Servers
	ensemble     *docker.Ensemble // the servers, if they are ZooKeeper's; else nil
	operator     *operator        // nil without an ensemble
	quorum       *quorum          // nil without an ensemble
	registers    *register.Registers
	contenders   []*contender
	replicas     []*replica   // of the lock service
	credentials  *credentials // of the replicas; nil without any
	recorder     recorder
	reservations reservations

	picks       atomic.Int64              // of followers
	partitioned atomic.Pointer[contender] // the holder that is, see partitionedTarget
	processes   atomic.Int64              // worker processes that were started
	running     sync.WaitGroup            // worker processes and replicas
	background  sync.WaitGroup            // faults and logging in progress

	mu sync.Mutex // guards result.Problems, result.Failures and result.Faults
}

// problemf records a problem of the contenders that is not a finding about the history.
func (r *run) problemf(format string, args ...any) {
	r.note(&r.result.Problems, "problem", fmt.Sprintf(format, args...))
}

// failuref records a failure of the servers or of the harness, which is none of the contenders.
func (r *run) failuref(format string, args ...any) {
	r.note(&r.result.Failures, "failure of the harness", fmt.Sprintf(format, args...))
}

func (r *run) note(texts *[]string, what, text string) {
	r.mu.Lock()
	*texts = append(*texts, text)
	r.mu.Unlock()
	if r.opts.Log != nil { // Check has completed the options of a run
		r.opts.Log("%s: %s", what, text)
	}
}

// launch starts a process, and calls then on the thread that started it, in a goroutine that cleanUp waits for.
func (r *run) launch(cmd *exec.Cmd, then func()) error {
	started := make(chan error)
	r.running.Go(func() {
		// The kernel takes the end of the thread that started the process for the death of its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			then()
		}
	})
	return <-started
}

// contender returns the contender with a number, as plans write it.
func (r *run) contender(number string) (*contender, error) {
	for _, c := range r.contenders {
		if fmt.Sprint(c.number) == number {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no contender %q", number)
}

// isZooKeeper reports whether the servers are ZooKeeper's: only there can an operator act and the logs be read.
func (r *run) isZooKeeper() bool { return r.ensemble != nil }

// number returns the number of a server, from 1.
func (r *run) number(server Server) int { return slices.Index(r.servers.All(), server) + 1 }

// serverTarget returns a server's name as a target.
func (r *run) serverTarget(server Server) string { return fmt.Sprint("server ", r.number(server)) }

func (r *run) serverTargets() (all []string) {
	for _, server := range r.servers.All() {
		all = append(all, r.serverTarget(server))
	}
	return all
}
