// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"
)

// processVariable is the environment variable that makes a process a worker process of a demo.
const processVariable = "LOCKKEEPER_EXAMPLE_PROCESS"

// A Process is the configuration of one worker process.
type Process struct {
	Name           string   // "a", "b", …
	Servers        []string // of ZooKeeper
	SessionTimeout time.Duration
	Dir            string // shared by all worker processes
}

// The messages of an example's log by which the supervisor follows it.
const (
	leading  = "leading"
	started  = "started"
	written  = "written"
	rejected = "stale write rejected"
)

// processOf parses the value of processVariable. It returns nil if text is empty: this process is the supervisor.
func processOf(text string) (*Process, error) {
	if text == "" {
		return nil, nil
	}
	p := new(Process)
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return nil, fmt.Errorf("%s=%q: %w", processVariable, text, err)
	}
	return p, nil
}

// run calls the example. It returns when the supervisor closes standard input or has ended.
func (p *Process) run(ctx context.Context, example func(context.Context, *Process) error) error {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process at the latest
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err := example(ctx, p)
	if ctx.Err() != nil {
		return nil // requested by the supervisor
	}
	return err
}

// withoutTime removes the time and the level of a record: the supervisor prints a time of its own.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}

// parseRecord splits a line of the log into its message and its attributes.
func parseRecord(line string) (message, attributes string) {
	message, found := strings.CutPrefix(line, slog.MessageKey+"=")
	if !found {
		return "", line
	}
	if quoted, err := strconv.QuotedPrefix(message); err == nil {
		unquoted, _ := strconv.Unquote(quoted)
		return unquoted, message[len(quoted):]
	}
	message, attributes, _ = strings.Cut(message, " ")
	return message, " " + attributes
}
