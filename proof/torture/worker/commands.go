// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// readCommands executes the commands of the harness until in ends. It ignores invalid ones.
func (p *process) readCommands(in io.Reader) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 1 && fields[0] == Stop:
			p.stopOnce()
		case len(fields) == 1 && fields[0] == Close:
			p.closeOnce()
		case len(fields) == 3 && fields[0] == Avoid:
			if d, err := time.ParseDuration(fields[2]); err == nil {
				p.mu.Lock()
				p.avoided[fields[1]] = time.Now().Add(d)
				p.mu.Unlock()
				if p.spec.Waiters > 0 { // without this the queue would never drain
					p.cancelAll(fields[1])
				}
			}
		case len(fields) == 2 && fields[0] == Cancel:
			p.cancelAll(fields[1])
		case len(fields) == 3 && fields[0] == Extend:
			p.extendHold(fields[1], fields[2])
		case len(fields) == 2 && fields[0] == Step:
			if d, err := time.ParseDuration(fields[1]); err == nil {
				p.step(d)
			}
		}
	}
}

// step steps the wall clock, and reports a problem if the clock did not move.
func (p *process) step(d time.Duration) {
	before := time.Now().Round(0)
	stepWall(d)
	if by := time.Now().Round(0).Sub(before); (by - d).Abs() > d.Abs()/2 {
		p.reporter.report(history.Event{Kind: history.Note, Text: fmt.Sprintf("step the wall clock by %v: it moved by %v", d, by)})
	}
}

// extendHold records for how long an attempt must hold at least. The attempt may be over.
func (p *process) extendHold(attempt, lasts string) {
	n, err := strconv.Atoi(attempt)
	if d, bad := time.ParseDuration(lasts); err == nil && bad == nil {
		p.mu.Lock()
		p.extended[n] = time.Now().Add(d)
		p.mu.Unlock()
	}
}

// extendedUntil returns until when an attempt must hold at least. It deletes a time that has passed.
func (p *process) extendedUntil(attempt int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := p.extended[attempt]
	if !time.Now().Before(until) {
		delete(p.extended, attempt)
	}
	return until
}

// isAvoided reports whether no operation may begin on a path.
func (p *process) isAvoided(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.avoided[path])
}
