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
// Its faults are idempotent: Kill of a dead server does nothing. They return when the
// fault is in effect, which can be before its consequences are visible. Faults of
// different servers may be injected concurrently, those of one server may not.
type Server struct {
	// ID is the server's id in its ensemble, counted from 1.
	ID int

	node node
}

// node is a server as a backend runs it.
type node interface {
	addr() string
	running(context.Context) error // nil, or why not
	kill(context.Context) error
	start(context.Context) error
	pause(context.Context) error
	unpause(context.Context) error
	cut(context.Context) error
	cutFromPeers(context.Context) error
	mend(context.Context) error
	tail(context.Context) string // the last lines of the log, or why there are none
	saveLogs(ctx context.Context, dir string) error
	fillDisk(context.Context) error
	freeDisk(context.Context) error
}

// Addr returns host:port for clients. It stays the same until the ensemble is closed.
func (s *Server) Addr() string { return s.node.addr() }

// Kill ends the server's process with SIGKILL. Its data remain.
func (s *Server) Kill(ctx context.Context) error { return s.did("kill", s.node.kill(ctx)) }

// Start starts a killed server again, with its data, at its address. It does not
// wait until the server serves: WaitServing does.
func (s *Server) Start(ctx context.Context) error { return s.did("start", s.node.start(ctx)) }

// Running returns nil if the server's process runs, paused or not, and an error that
// matches os.ErrProcessDone if it has ended. For servers that ZK_SERVERS names, it
// always returns nil, because their state is unknown.
func (s *Server) Running(ctx context.Context) error {
	return s.did("look for the process", s.node.running(ctx))
}

// Pause suspends the server: its connections stay open, its kernel accepts new ones,
// and it answers nothing.
func (s *Server) Pause(ctx context.Context) error { return s.did("pause", s.node.pause(ctx)) }

// Unpause continues a paused server.
func (s *Server) Unpause(ctx context.Context) error { return s.did("unpause", s.node.unpause(ctx)) }

// Cut partitions the server from clients and peers, silently: all packets to it
// are lost, and no connection is closed. Connections that have not timed out by then
// continue after Mend.
func (s *Server) Cut(ctx context.Context) error { return s.did("cut", s.node.cut(ctx)) }

// CutFromPeers partitions the server from its peers only, as silently. For SyncLimit
// ticks the server does not notice: a follower answers pings and serves reads from its
// state, and an isolated leader answers as if it led.
func (s *Server) CutFromPeers(ctx context.Context) error {
	return s.did("cut from its peers", s.node.cutFromPeers(ctx))
}

// Mend undoes Cut and CutFromPeers.
func (s *Server) Mend(ctx context.Context) error { return s.did("mend", s.node.mend(ctx)) }

func (s *Server) did(op string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: server %d at %s: %w", op, s.ID, s.Addr(), err)
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

// probeBound is the timeout of one request in a poll: a starting server may never
// answer the first connections that it accepts.
const probeBound = 200 * time.Millisecond

// answerBound is the timeout of any request to a server: one that is partitioned or
// dead does not answer, and without a timeout the system waits for minutes.
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
	return "", fmt.Errorf("mode of server %d at %s: not serving: %q", s.ID, s.Addr(), strings.TrimSpace(answer))
}

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
		return fmt.Errorf("wait for server %d: %w", s.ID, err)
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
		return "", fmt.Errorf("%s: server %d: %w", word, s.ID, err)
	}
	return answer, nil
}

func fourLetter(ctx context.Context, addr, word string) (answer string, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// When ctx ends, a past deadline ends all reads and writes of the connection.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(conn)
	return string(b), err
}
