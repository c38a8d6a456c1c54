// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

// RunRedis starts a Redis with an append-only file, which contains every command that it has answered. The caller must Close
// it.
func RunRedis(ctx context.Context, opts *Options) (*Server, error) {
	program, err := find("redis-server")
	if err != nil {
		return nil, fmt.Errorf("start redis: %w", err)
	}
	s, err := prepared("redis")
	if err != nil {
		return nil, fmt.Errorf("start redis: %w", err)
	}
	s.argv = append([]string{
		program, "--bind", "127.0.0.1", "--port", s.port(), "--dir", s.data(),
		"--save", "", "--appendonly", "yes", "--appendfsync", "no",
	}, opts.args()...)
	s.ready = s.redisServes
	return first(ctx, s)
}

// Redis is RunRedis for tests. It fails tb on error, or skips it if Redis is not installed, and closes the server when tb ends.
func Redis(tb testing.TB, opts *Options) *Server {
	tb.Helper()
	s, err := RunRedis(tb.Context(), opts)
	return started(tb, s, err)
}

// redisServes returns nil if our server listens on its port and has loaded its data. Another program may have taken the port
// before it. While a Redis loads its data, INFO is the only command that it answers.
func (s *Server) redisServes(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := fmt.Fprint(conn, "INFO\r\n"); err != nil {
		return err
	}
	answer := bufio.NewScanner(conn)
	for answer.Scan() {
		line := answer.Text()
		if strings.HasPrefix(line, "-") {
			return fmt.Errorf("redis: %s", line)
		}
		if pid, found := strings.CutPrefix(line, "process_id:"); found && pid != strconv.Itoa(s.running.cmd.Process.Pid) {
			return fmt.Errorf("another process has the port: %s", pid)
		}
		// process_id comes before loading.
		switch line {
		case "loading:1":
			return errors.New("redis is loading its data")
		case "loading:0":
			return nil
		}
	}
	return fmt.Errorf("redis: the answer to INFO is incomplete: %w", answer.Err())
}
