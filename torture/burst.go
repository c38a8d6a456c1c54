// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// cancelWaiters cancels all waiters of a path at the same time. They join again soon after.
func cancelWaiters(_ context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	for _, c := range r.contenders {
		c.send(worker.Cancel + " " + args[0])
	}
	return nothingToHeal, nil
}

// expireSessions ends all sessions of a contender at the same time, as an operator can who knows their ids. All waiters of the
// contender then join again at the same time.
func expireSessions(ctx context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	if r.operator == nil {
		return nil, docker.ErrUnsupported
	}
	c, err := r.contender(args[0])
	if err != nil {
		return nil, err
	}
	return r.reservations.reserved(c.linksTarget(), func() (heal, error) { // the operator uses its own connection; the reservation excludes other faults
		var mu sync.Mutex // guards ended
		ended := 0
		var ending sync.WaitGroup
		for _, session := range c.current().takeSessions() {
			ending.Go(func() {
				switch err := r.operator.expire(ctx, session); {
				case err == nil:
					mu.Lock()
					defer mu.Unlock()
					ended++
				case !errors.Is(err, errNoSession):
					c.current().addSession(session) // the server may be down
				}
			})
		}
		ending.Wait()
		if ended == 0 {
			return nil, fmt.Errorf("no session of %s could be ended: %w", c.processTarget(), errMissed)
		}
		return nothingToHeal, nil
	})
}

// takeSessions returns the sessions that a process has reported since the last call.
func (p *process) takeSessions() (all []history.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for session := range p.sessions {
		all = append(all, session)
	}
	clear(p.sessions)
	return all
}

// addSession records that a process has a session.
func (p *process) addSession(session history.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions == nil {
		p.sessions = map[history.ID]bool{}
	}
	p.sessions[session] = true
}

// errNoSession reports that the session does not exist, or no longer exists.
var errNoSession = errors.New("no such session")

// expire ends a session of another client: it attaches to the session, with the password that servers derive from its id, and
// closes it. The session's client then finds that its session has expired.
func (o *operator) expire(ctx context.Context, session history.ID) (err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.servers[int(uint64(session)%uint64(len(o.servers)))])
	if err != nil {
		return fmt.Errorf("operator: expire %v: %w", session, err)
	}
	defer func() { _ = conn.Close() }() // the server closes it as well
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("operator: expire %v: %w", session, err)
		}
	}
	hello := binary.BigEndian.AppendUint32(nil, 0)                // protocol version
	hello = binary.BigEndian.AppendUint64(hello, 0)               // last zxid seen
	hello = binary.BigEndian.AppendUint32(hello, 4000)            // timeout, in ms
	hello = binary.BigEndian.AppendUint64(hello, uint64(session)) //nolint:gosec // the same bits
	hello = append(binary.BigEndian.AppendUint32(hello, 16), password(session)...)
	answer, err := exchange(conn, append(hello, 0)) // not read-only
	if err != nil {
		return fmt.Errorf("operator: expire %v: %w", session, err)
	}
	if len(answer) < 8 || binary.BigEndian.Uint32(answer[4:]) == 0 {
		return fmt.Errorf("operator: expire %v: %w", session, errNoSession)
	}
	// Record it before the servers carry it out: the commit order must never lack the operator as the cause.
	o.mu.Lock()
	o.ended[int64(session)] = true
	o.mu.Unlock()
	const closeSession = -11
	request := binary.BigEndian.AppendUint32(nil, 1) // xid: a request with xid 0 would look like a timeout
	request = binary.BigEndian.AppendUint32(request, 1<<32+closeSession)
	if _, err := exchange(conn, request); err != nil {
		return fmt.Errorf("operator: expire %v: %w", session, err)
	}
	return nil
}

// exchange sends a frame and reads the next.
func exchange(conn net.Conn, frame []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil { //nolint:gosec // a few bytes
		return nil, err
	}
	length := make([]byte, 4)
	if _, err := io.ReadFull(conn, length); err != nil {
		return nil, err
	}
	answer := make([]byte, min(binary.BigEndian.Uint32(length), 1<<20))
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// password returns the password that ZooKeeper derives from a session's id: 16 bytes of java.util.Random, seeded with the id
// and a constant that is the same on all servers.
func password(session history.ID) []byte {
	const (
		secret     = 0xB3415C00
		multiplier = 0x5DEECE66D
		mask       = 1<<48 - 1
	)
	seed := (uint64(session) ^ secret ^ multiplier) & mask //nolint:gosec // the same bits
	var bytes []byte
	for range 4 {
		seed = (seed*multiplier + 0xB) & mask
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(seed>>16)) //nolint:gosec // the upper bits
	}
	return bytes
}

// expiredSessions returns the sessions of contenders that the operator ended.
func (o *operator) expiredSessions() (all []history.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for session := range o.ended {
		all = append(all, history.ID(session))
	}
	return all
}
