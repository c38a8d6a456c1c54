// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"

	"github.com/lockkeeper/lockkeeper/docker"
)

// A Rival is a lock of another project, which runs instead of this library, for comparison: another library, other servers, or
// both.
type Rival struct {
	Name string // of the library, with its version

	// Servers starts the servers that the library needs; nil for the ZooKeeper ensemble that this library uses. The run closes
	// what it returns.
	Servers func(ctx context.Context) (Servers, error)

	// Token describes its fencing tokens; "" if it has none, and then there is no fenced register.
	Token string

	// NotifiedBy describes what notifies a holder of its loss: the library, or an adapter in package rivals.
	NotifiedBy string

	// Limits describes how the servers are configured, and which configurations were not tried.
	Limits string

	// Without maps the faults that do not exist there to the reasons.
	Without map[string]string

	_ struct{}
}

// Servers are the servers of a run.
type Servers interface {
	About() string // program and version
	All() []Server
	Leader(ctx context.Context) (Server, error)
	WaitServing(ctx context.Context) error
	Close() error
}

// A Server is one of the servers of a run. An operation that it does not support returns an error.
type Server interface {
	Addr() string
	Kill(ctx context.Context) error
	Start(ctx context.Context) error
	Pause(ctx context.Context) error
	Unpause(ctx context.Context) error
	Partition(ctx context.Context) error
	Isolate(ctx context.Context) error
	Heal(ctx context.Context) error
	WaitServing(ctx context.Context) error
	Log(ctx context.Context) string
}

// ensemble adapts docker.Ensemble to Servers.
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
	if err != nil { // return a nil Server, not a Server with a nil pointer
		return nil, err
	}
	return s, nil
}
