// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Server is one server of an ensemble.
//
// Its faults set a state, and setting the state that the server is in is no error: killing
// a killed server has no effect. They return when the fault is in place, which may be before
// its consequences. Faults of different servers may be injected concurrently, faults of one
// server may not.
type Server struct {
	id   int
	node node
}

// ID returns the server's id in its ensemble, counted from 1: ZooKeeper's myid.
func (s *Server) ID() int { return s.id }

// Addr returns host:port for clients. It stays the same until the ensemble is closed.
func (s *Server) Addr() string { return s.node.addr() }

// Kill ends the server's process immediately, with SIGKILL. Its data remain, and so does a
// partition.
func (s *Server) Kill(ctx context.Context) error { return s.did("kill", s.node.kill(ctx)) }

// Start starts a killed server again, with its data, at its address. It does not
// wait until the server serves: WaitServing does.
func (s *Server) Start(ctx context.Context) error { return s.did("start", s.node.start(ctx)) }

// Running returns nil if the server's process runs, paused or not, and an error that
// matches os.ErrProcessDone if it has ended. For servers that ZK_SERVERS names, it
// always returns nil, because their state is unknown.
func (s *Server) Running(ctx context.Context) error {
	return s.did("find the process", s.node.running(ctx))
}

// Pause suspends the server: its connections stay open, its kernel accepts new ones,
// and it answers nothing.
func (s *Server) Pause(ctx context.Context) error { return s.did("pause", s.node.pause(ctx)) }

// Unpause continues a paused server.
func (s *Server) Unpause(ctx context.Context) error { return s.did("unpause", s.node.unpause(ctx)) }

// Partition partitions the server from clients and from the other servers. No packet
// reaches it and no connection is closed. Connections that are still open at Heal continue.
func (s *Server) Partition(ctx context.Context) error {
	return s.did("partition", s.node.partition(ctx))
}

// Isolate partitions the server from the other servers only, in the same way. For SyncLimit
// ticks the server does not notice: a follower answers pings and serves reads from its own
// state, and a leader continues as if it led.
func (s *Server) Isolate(ctx context.Context) error { return s.did("isolate", s.node.isolate(ctx)) }

// Heal ends Partition and Isolate.
func (s *Server) Heal(ctx context.Context) error { return s.did("heal", s.node.heal(ctx)) }

// did names the operation and the server in an error.
func (s *Server) did(op string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: server %d at %s: %w", op, s.id, s.Addr(), err)
	}
	return nil
}

// Log returns the last lines of the server's log, or the reason why it cannot be
// read.
func (s *Server) Log(ctx context.Context) string { return s.node.tail(ctx) }

// SaveLogs copies the logs of the server, running or not, into dir: transactions in
// files "log.…" and snapshots in "snapshot.…", which package txnlog reads, and its
// printed log in "server.log". A file is a copy at one moment, which may be in the
// middle of a transaction.
func (s *Server) SaveLogs(ctx context.Context, dir string) error {
	return s.did("save the logs", s.node.saveLogs(ctx, dir))
}

// probeBound bounds one request of a poll: the first connections that a starting server
// accepts may never be answered.
const probeBound = 200 * time.Millisecond

// answerBound bounds every other request to a server: a partitioned or killed server does not
// answer, and the operating system alone would wait for minutes.
const answerBound = 2 * time.Second

// Mode asks the server once for its role: "leader", "follower", "observer" or
// "standalone". If the server answers without a role, as one that has lost its quorum
// does, the error has the answer. Mode waits at most two seconds.
func (s *Server) Mode(ctx context.Context) (string, error) {
	answer, err := s.FourLetter(ctx, "srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(answer) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", fmt.Errorf("mode of server %d at %s: not serving: %q", s.id, s.Addr(), strings.TrimSpace(answer))
}

// probe is Mode within probeBound.
func (s *Server) probe(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	return s.Mode(ctx)
}

// WaitServing waits until the server serves, alone or as part of a quorum.
func (s *Server) WaitServing(ctx context.Context) error {
	err := poll(ctx, func(ctx context.Context) error {
		_, err := s.probe(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for server %d: %w", s.id, err)
	}
	return nil
}

// FourLetter sends one of ZooKeeper's four-letter words ("srvr", "mntr", "cons",
// "wchp") and returns the answer. It waits two seconds at most.
func (s *Server) FourLetter(ctx context.Context, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	answer, err := fourLetter(ctx, s.Addr(), word)
	if err != nil {
		return "", fmt.Errorf("%s: server %d: %w", word, s.id, err)
	}
	return answer, nil
}

func fourLetter(ctx context.Context, addr, word string) (answer string, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// A past deadline ends whatever the connection waits for, at the end of ctx.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(conn)
	return string(b), err
}
