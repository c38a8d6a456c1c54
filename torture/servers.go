// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/docker"
)

// A Rival is what is tortured in this library's place, for comparison: another library, or other servers, or both.
type Rival struct {
	Name string // of the library, with its version

	// Servers starts what the library runs on; nil for the ensembles of ZooKeeper that ours runs on. What it returns is
	// closed by the run.
	Servers func(ctx context.Context) (Servers, error)

	// Token says what its fencing tokens are; "" if it has none, and no fenced register then.
	Token string

	// Tells says who tells a holder that it is one no longer: the library, or what was written here around it.
	Tells string

	// Limits says how the servers are set, and what was not tried with them.
	Limits string

	// Without are the faults that do not exist there, each with the reason.
	Without map[string]string

	_ struct{}
}

// Servers are those of a rival.
type Servers interface {
	About() string // program and version
	All() []Server
	Leader(ctx context.Context) (Server, error)
	WaitServing(ctx context.Context) error
	Close() error
}

// A Server is one of several, or the only one. What is not possible with it is an error.
type Server interface {
	Addr() string
	Kill(ctx context.Context) error
	Start(ctx context.Context) error
	Pause(ctx context.Context) error
	Unpause(ctx context.Context) error
	Cut(ctx context.Context) error
	CutFromPeers(ctx context.Context) error
	Mend(ctx context.Context) error
	WaitServing(ctx context.Context) error
	Log(ctx context.Context) string
}

// ensemble is ZooKeeper, ours.
type ensemble struct {
	*docker.Ensemble
	about string
}

func (e ensemble) About() string { return e.about }

func (e ensemble) All() []Server {
	var all []Server
	for _, s := range e.Servers() {
		all = append(all, s)
	}
	return all
}

func (e ensemble) Leader(ctx context.Context) (Server, error) {
	s, err := e.Ensemble.Leader(ctx)
	if err != nil { // and no Server that is none
		return nil, err
	}
	return s, nil
}

// isZooKeeper says whether an operator can be sent there, and whether its logs can be read.
func (r *run) isZooKeeper() bool { return r.ensemble != nil }

// number is that of a server, from 1.
func (r *run) number(server Server) int { return slices.Index(r.servers.All(), server) + 1 }
