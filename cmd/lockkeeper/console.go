// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A console executes commands on an ensemble, one per line.
type console struct {
	ensemble *zktest.Ensemble
	out, err io.Writer
}

// run executes commands until ctx ends. Neither the end of the input nor a failed write to out ends it: clients use the servers.
func (c *console) run(ctx context.Context, in io.Reader) {
	failBackgroundReads()
	commands := readLines(ctx, in)
	for {
		select {
		case line, more := <-commands:
			switch {
			case !more:
				commands = nil
				logError(c.err, "dev: standard input has ended: serving without commands until an interrupt")
			case line.err != nil:
				logError(c.err, "dev: read standard input: %v: serving without commands until an interrupt", line.err)
			default:
				if err := c.do(strings.TrimSpace(line.text)); err != nil {
					logError(c.err, "dev: write the answer: %v", err)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// help is the start of the list of commands. The faults follow.
const help = `dump      the nodes
sessions  the sessions
servers   the servers, by id, counted from 1
help      this list, and the faults:
`

// do executes a command. It reports a bad command to c.err. Its error is from the write of the answer.
func (c *console) do(command string) error {
	answer := ""
	switch command {
	case "":
		return nil
	case "help":
		answer = help + "  " + strings.Join(zktest.Faults(), "\n  ") + "\n"
	case "dump":
		answer = c.ensemble.Dump()
	case "sessions":
		answer = c.sessions()
	case "servers":
		answer = c.servers()
	default:
		if err := c.ensemble.Apply(command); err != nil {
			logError(c.err, "dev: %v", err)
			return nil
		}
		answer = "done: " + command + "\n"
	}
	_, err := io.WriteString(c.out, answer)
	return err
}

func (c *console) sessions() string {
	var b strings.Builder
	for _, s := range c.ensemble.Sessions() {
		where := "attached to"
		if !s.Attached {
			where = "detached from"
		}
		fmt.Fprintf(&b, "0x%x times out after %v, %s server %d\n", uint64(s.ID), s.Timeout, where, s.Server) //nolint:gosec // as ZooKeeper prints it
	}
	if b.Len() == 0 {
		return "no sessions\n"
	}
	return b.String()
}

func (c *console) servers() string {
	var b strings.Builder
	for _, server := range c.ensemble.Servers() {
		mode, err := server.Mode(context.Background())
		if err != nil {
			mode = "not serving"
		}
		fmt.Fprintf(&b, "%d  %s  %s\n", server.ID(), server.Addr(), mode)
	}
	return b.String()
}

// A line is a line of the input, or the error that ended it.
type line struct {
	text string
	err  error
}

// readLines reads until the input or ctx ends. A read of standard input cannot be
// interrupted, so its goroutine may stay in one until the process ends.
func readLines(ctx context.Context, in io.Reader) <-chan line {
	lines := make(chan line)
	send := func(l line) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(in)
		for scanner.Scan() {
			if !send(line{text: scanner.Text()}) {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			send(line{err: err})
		}
	}()
	return lines
}
