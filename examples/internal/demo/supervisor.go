// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A director has the players play, and prints what they say.
type director struct {
	server  *zktest.Ensemble
	dir     string
	begun   time.Time
	cast    map[string]*process
	heard   chan speech // of all players; closed when all have ended
	leader  string      // who said last that it leads
	frozen  string      // whom the switch has frozen
	late    bool        // the frozen one goes on
	reading sync.WaitGroup
}

// A process is a player as the director sees it.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
}

// A speech is a line and whose it is.
type speech struct {
	who string
	line
}

func open(about string, players int) (_ *director, err error) {
	d := &director{begun: time.Now(), cast: map[string]*process{}, heard: make(chan speech, 64)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	d.reading.Add(1) // as long as there may be more of them
	defer d.reading.Done()
	go func() { // close waits for its end
		d.reading.Wait()
		close(d.heard)
	}()
	if d.server, err = zktest.Listen(&zktest.Options{Tick: Timeout / 8}); err != nil {
		return nil, err
	}
	if d.dir, err = os.MkdirTemp("", "lockkeeper-example"); err != nil {
		return nil, err
	}
	fmt.Printf("%s\n%d processes, a ZooKeeper server in the process that starts them (zktest), sessions of %v\n\n", about, players, Timeout)
	for i := range players {
		if err := d.enter(string(rune('a' + i))); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// enter starts a player.
func (d *director) enter(name string) error {
	part, err := json.Marshal(&Player{Name: name, Servers: d.server.Servers(), Dir: d.dir})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), partVariable+"="+string(part))
	cmd.Stderr = os.Stderr
	separate(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start player %s: %w", name, err)
	}
	d.cast[name] = &process{cmd: cmd, in: in}
	d.reading.Go(func() {
		for lines := json.NewDecoder(out); ; {
			var l line
			if lines.Decode(&l) != nil {
				return // it has ended
			}
			d.heard <- speech{name, l}
		}
	})
	return nil
}

// print shows what somebody says or does.
func (d *director) print(who, text string) {
	fmt.Printf("%7.2fs  %-2s %s\n", time.Since(d.begun).Seconds(), who, text)
}

// hear takes in what a player has said.
func (d *director) hear(s speech) {
	d.print(s.who, s.Text)
	if s.Mark == leads {
		d.leader = s.who
	}
}

// freeze throws the switch: the leader stands still, whatever it was about to do.
func (d *director) freeze() error {
	if d.frozen != "" {
		d.print("", d.frozen+" is frozen already")
		return nil
	}
	if d.leader == "" {
		d.print("", "nobody leads yet")
		return nil
	}
	if err := stopProcess(d.cast[d.leader].cmd.Process); err != nil {
		return fmt.Errorf("freeze %s: %w", d.leader, err)
	}
	d.frozen, d.late = d.leader, false
	d.print("", fmt.Sprintf("*** %s is frozen: its process gets SIGSTOP. Its session will be over in %v", d.frozen, Timeout))
	return nil
}

// thaw throws it back.
func (d *director) thaw() error {
	if d.frozen == "" {
		d.print("", "nobody is frozen")
		return nil
	}
	d.print("", fmt.Sprintf("*** %s goes on, with what it was about to do", d.frozen))
	if err := continueProcess(d.cast[d.frozen].cmd.Process); err != nil {
		return fmt.Errorf("thaw %s: %w", d.frozen, err)
	}
	d.frozen, d.late = "", true
	return nil
}

// audience lets a person throw the switch.
func (d *director) audience(ctx context.Context, in io.Reader) error {
	fmt.Print("Type f and Enter to freeze the leader, t to thaw it, q to end.\n\n")
	typed := make(chan string)
	go func() { // ends with the process: nothing makes a read of a terminal return
		defer close(typed)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			typed <- strings.TrimSpace(lines.Text())
		}
	}()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s, playing := <-d.heard:
			if !playing {
				return errors.New("all players have ended")
			}
			d.hear(s)
		case word, open := <-typed:
			switch {
			case !open || word == "q":
				return nil
			case word == "f":
				err = d.freeze()
			case word == "t":
				err = d.thaw()
			default:
				d.print("", fmt.Sprintf("%q is none of f, t and q", word))
			}
		}
		if err != nil {
			return err
		}
	}
}

// script throws the switch by itself, and says what came of it.
func (d *director) script(ctx context.Context) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no late write was refused within %v", patience))
	defer cancel()
	var first string // whom the switch freezes
	writes := 0
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case s, playing := <-d.heard:
			if !playing {
				return errors.New("all players have ended")
			}
			d.hear(s)
			switch {
			case first == "" && s.Mark == wrote:
				writes++
			case first == "" && s.Mark == begins && writes >= 2:
				first, writes = s.who, 0
				if err := d.freeze(); err != nil {
					return err
				}
			case first != "" && !d.late && s.who != first && s.Mark == wrote:
				if writes++; writes < 2 {
					continue
				}
				if err := d.thaw(); err != nil {
					return err
				}
			case d.late && s.who == first && s.Mark == wrote:
				return fmt.Errorf("%s has written late, and was not refused", first)
			case d.late && s.who == first && s.Mark == refused:
				fmt.Printf("\nok: %s was frozen, another led and wrote, and %s's late write was refused\n", first, first)
				return nil
			}
		}
	}
}

// close ends the players, then the server that they use.
func (d *director) close() error {
	for _, p := range d.cast {
		_ = p.in.Close()                   // which is how it is asked to end
		_ = continueProcess(p.cmd.Process) // it may be frozen
	}
	for range d.heard {
		continue // what they still say, nobody is there to hear
	}
	var errs []error
	for name, p := range d.cast {
		if err := p.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("player %s: %w", name, err))
		}
	}
	if d.server != nil {
		errs = append(errs, d.server.Close())
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}
