// SPDX-License-Identifier: Apache-2.0

package permits

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A LimitError reports that the limit of a process's Permits is not the one that is stored in
// ZooKeeper: two processes were configured differently, or the limit was changed by Resize.
type LimitError struct {
	Path   string // of the node that stores the limit
	Limit  int    // of New
	Stored int
}

// Error names both limits.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit is %d in this process and %d in %s: use the same limit in all processes, or Resize", e.Limit, e.Stored, e.Path)
}

// A limitRecord is the data of the node that stores the limit.
type limitRecord struct {
	Limit int  `json:"limit"`
	Slots bool `json:"slots,omitempty"` // the permits are numbered
}

var limits = record.Kind[limitRecord]{Name: "a limit", Check: func(r limitRecord) error { return checkPermits(r.Limit) }}

func (p *Permits) encodeLimit(limit int) []byte {
	if p.numbered {
		return fmt.Appendf(nil, `{"format":1,"limit":%d,"slots":true}`, limit)
	}
	return fmt.Appendf(nil, `{"format":1,"limit":%d}`, limit)
}

// MaxNumbers is the greatest limit of numbered permits: a listing of so many has 36 KB.
const MaxNumbers = 4096

func (p *Permits) checkLimit(limit int) error {
	if p.numbered && (limit < 1 || limit > MaxNumbers) {
		return fmt.Errorf("limit of %d slots: must be 1 to %d", limit, MaxNumbers)
	}
	return checkPermits(limit)
}

func checkPermits(limit int) error {
	if limit < 1 || limit > protocol.MaxPermits {
		return fmt.Errorf("limit of %d permits: must be 1 to %d", limit, protocol.MaxPermits)
	}
	return nil
}

// ErrNoLimit is returned for Permits without a limit of their own, if no limit is stored.
var ErrNoLimit = errors.New("no limit is stored: use a limit that is not 0, which stores it")

// ErrNumbered is returned for permits with numbers on a path whose permits have none, and the reverse.
var ErrNumbered = errors.New("a semaphore and slots cannot have the same path")

// readLimit returns the stored limit. It stores the limit of New if there is none.
//
// What it returns can be out of date, as the server may lag behind. A grant checks the version. Where the limit decides anything
// else, use acceptLimit. A process that has read its own limit follows each Resize from then on.
func (p *Permits) readLimit(ctx context.Context, s *client.Session) (queue.Limit, error) {
	for {
		w, err := s.Watch(ctx, p.limitPath, session.WatchNode)
		if errors.Is(err, zk.ErrNoNode) {
			if err := p.createLimit(ctx, s); err != nil {
				return queue.Limit{}, err
			}
			continue
		}
		if err != nil {
			return queue.Limit{}, err
		}
		data, stat, _ := w.Content()
		stored, err := limits.Decode(data)
		if err == nil && stored.Slots != p.numbered {
			err = ErrNumbered
		}
		if err != nil {
			return queue.Limit{}, &recipes.Error{Op: "read", Path: p.limitPath, Err: err}
		}
		if stored.Limit == p.limit {
			p.follow()
		}
		return queue.Limit{Permits: stored.Limit, Version: stat.Version, Changed: w.Fired()}, nil
	}
}

// acceptLimit returns a limit for which refuse returns nil. If refuse returns an error, for the limit that was stored at some instant
// after the call began, acceptLimit returns that error and the limit.
func (p *Permits) acceptLimit(ctx context.Context, s *client.Session, refuse func(permits int) error) (queue.Limit, error) {
	for {
		l, err := p.readLimit(ctx, s)
		if err != nil {
			return queue.Limit{}, err
		}
		refusal := refuse(l.Permits)
		if refusal == nil {
			return l, nil
		}
		stored, err := p.isStored(ctx, s, l.Version)
		if err != nil {
			return queue.Limit{}, err
		}
		if stored {
			return l, refusal
		}
	}
}

// isStored reports whether a quorum has the limit's node, in that version or, if version is -1, in any. Reads of the session that
// follow are not older than that.
func (p *Permits) isStored(ctx context.Context, s *client.Session, version int32) (bool, error) {
	_, err := session.Retry(ctx, s.Session, "check", p.limitPath, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(&zk.CheckVersionRequest{Path: p.limitPath, Version: version})
	})
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}

// createLimit stores the limit of New, unless another client has stored one. It returns ErrNoLimit if there is neither.
func (p *Permits) createLimit(ctx context.Context, s *client.Session) error {
	if p.limit == 0 {
		stored, err := p.isStored(ctx, s, -1)
		if err == nil && !stored {
			err = &recipes.Error{Op: "read", Path: p.limitPath, Err: ErrNoLimit}
		}
		return err
	}
	return s.Client().Create(ctx, p.limitPath, p.encodeLimit(p.limit), s.Client().ACL())
}

// agreedLimit is acceptLimit for a claim of so many permits. Its error is a *LimitError if the first limit that this
// process reads is not its own. From then on, the process follows each Resize.
func (p *Permits) agreedLimit(ctx context.Context, s *client.Session, weight int) (queue.Limit, error) {
	l, err := p.acceptLimit(ctx, s, func(permits int) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.agreed && permits != p.limit {
			return &recipes.Error{Op: "claim", Path: p.queue.Path(), Err: &LimitError{Path: p.limitPath, Limit: p.limit, Stored: permits}}
		}
		return p.checkWeight(weight, permits)
	})
	if err == nil {
		p.follow()
	}
	return l, err
}

// follow makes the process follow the stored limit, whatever it is.
func (p *Permits) follow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.agreed = true
}
