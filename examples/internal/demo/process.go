// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// partVariable is the variable of the environment that makes a process a player.
const partVariable = "LOCKKEEPER_EXAMPLE_PART"

// A Player is one of the processes on the stage. Its methods may be called concurrently.
type Player struct {
	Name    string   // "a", "b", …
	Servers []string // of ZooKeeper
	Dir     string   // a folder that all players share

	mu sync.Mutex // guards standard output
}

// A mark tells the director what a line is about.
type mark string

const (
	leads   mark = "leads"
	begins  mark = "begins"
	wrote   mark = "wrote"
	refused mark = "refused"
	says    mark = "says"
)

// A line is what a player says.
type line struct {
	Mark mark
	Text string
}

// Leads says that this player leads: it is the one that the switch freezes.
func (p *Player) Leads(format string, args ...any) { p.say(leads, format, args...) }

// Begins says that this player sets about what it will write.
func (p *Player) Begins(format string, args ...any) { p.say(begins, format, args...) }

// Wrote says that a write was admitted.
func (p *Player) Wrote(format string, args ...any) { p.say(wrote, format, args...) }

// Refused says that a write was refused, since a newer leader has written.
func (p *Player) Refused(format string, args ...any) { p.say(refused, format, args...) }

// Say says anything else.
func (p *Player) Say(format string, args ...any) { p.say(says, format, args...) }

func (p *Player) say(m mark, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Where nobody listens any more, this process is about to end.
	_ = json.NewEncoder(os.Stdout).Encode(line{m, fmt.Sprintf(format, args...)})
}

// playerOf is the player that this process is, nil if it is none.
func playerOf(text string) (*Player, error) {
	if text == "" {
		return nil, nil
	}
	p := new(Player)
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return nil, fmt.Errorf("%s=%q: %w", partVariable, text, err)
	}
	return p, nil
}

// play ends when the director closes standard input, or is gone.
func (p *Player) play(ctx context.Context, play func(context.Context, *Player) error) error {
	slog.SetLogLoggerLevel(slog.LevelWarn) // the audience wants to see the example
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process at the latest
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err := play(ctx, p)
	if ctx.Err() != nil {
		return nil // that is what it was asked for
	}
	return err
}
