// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// taskVariable is the environment variable that makes this program a contender. It has its task in JSON.
const taskVariable = "LOCKKEEPER_LAB_CONTENDER"

// A task is what a process of a contender needs.
type task struct {
	Name      string
	Servers   []string
	Timeout   time.Duration
	Registers map[string]string // their URLs
}

// Main runs a contender and exits, if this process is one of a laboratory. A program with a laboratory calls it first.
func Main() {
	text := os.Getenv(taskVariable)
	if text == "" {
		return
	}
	if err := contend(text, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// contend runs a contender until the end of its orders. Several goroutines write reports, in one call each.
func contend(text string, orders io.Reader, reports io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return fmt.Errorf("decode %s: %w", taskVariable, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	// Orders are clicks. They must not block the reader while the contender connects: it would not notice the end of the laboratory.
	received := make(chan string, 64)
	go func() { // it ends with the process
		defer cancel(io.EOF) // the laboratory has ended, however
		for lines := bufio.NewScanner(orders); lines.Scan(); {
			received <- lines.Text()
		}
	}()
	client := &http.Client{Transport: &httpfence.Transport{RefusalIsError: true}, Timeout: t.Timeout}
	c := &contender{
		name: t.Name, servers: t.Servers, timeout: t.Timeout, orders: received,
		report: func(r report) {
			line, err := json.Marshal(r)
			if err == nil {
				_, err = reports.Write(append(line, '\n'))
			}
			if err != nil {
				cancel(fmt.Errorf("report: %w", err))
			}
		},
		write: func(ctx context.Context, name string, w write) error { return put(ctx, client, t.Registers[name], w) },
	}
	err := c.run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, io.EOF) {
		err = errors.Join(err, cause)
	}
	return err
}

// put writes to the register at a URL.
func put(ctx context.Context, client *http.Client, url string, w write) error {
	body, err := json.Marshal(w)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(fencing.WithToken(ctx, w.Token), http.MethodPut, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // of a response that was read
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(string(answer)))
	}
	return err
}

// A process is a contender in a child process.
type process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{} // closed when it has ended and all its reports were received
}

// startProcess starts a contender. Its reports are received one at a time, and then how it ended.
func startProcess(t task, received func(report), ended func(error)) (*process, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start contender %s: %w", t.Name, err)
	}
	var complaint bytes.Buffer
	p := &process{cmd: exec.Command(self), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	p.cmd.Stderr = &complaint
	setGroup(p.cmd)
	output, err := p.cmd.StdoutPipe()
	if err == nil {
		p.input, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start contender %s: %w", t.Name, err)
	}
	go func() { // kill and stop wait for it
		defer close(p.ended)
		decoder := json.NewDecoder(output)
		for {
			var r report
			if decoder.Decode(&r) != nil {
				break // the process has ended, perhaps within a report
			}
			received(r)
		}
		err := p.cmd.Wait()
		if said := strings.TrimSpace(complaint.String()); said != "" && err != nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
		ended(err)
	}()
	return p, nil
}

func (p *process) order(text string) error {
	_, err := io.WriteString(p.input, text+"\n")
	return err
}

// pause stops the process, as SIGSTOP does, and returns when it stands still.
func (p *process) pause() error { return zktest.Freeze(p.cmd.Process) }

func (p *process) resume() error { return zktest.Thaw(p.cmd.Process) }

// kill ends the process without a farewell: its session lives on until it expires.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// stop lets the process release what it holds, and kills it if that takes too long.
func (p *process) stop(patience time.Duration) {
	_ = p.input.Close() // it may have ended
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.kill()
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }
