// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// A LimitError reports that the limit of a process's Permits is not the one that is stored in
// ZooKeeper: two processes were configured differently, or the limit was changed by Resize.
type LimitError struct {
	Path   string // of the node that stores the limit
	Limit  int    // of NewPermits
	Stored int
}

// Error names both limits.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit is %d in this process and %d in %s: use the same limit in all processes, or Resize", e.Limit, e.Stored, e.Path)
}

// A limitRead is the stored limit as a read returned it.
type limitRead struct {
	permits int
	version int32           // of the node
	changed <-chan struct{} // closed when the node may have changed
}

// A limitRecord is the data of the node that stores the limit.
type limitRecord struct {
	Format int `json:"format"` // 1
	Limit  int `json:"limit"`
}

func encodeLimit(limit int) []byte { return fmt.Appendf(nil, `{"format":1,"limit":%d}`, limit) }

func decodeLimit(data []byte) (int, error) {
	var r limitRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return 0, fmt.Errorf("decode limit: %w", err)
	}
	if r.Format != 1 || checkLimit(r.Limit) != nil {
		return 0, fmt.Errorf("decode limit: %.40q is not a limit that this version can read", data)
	}
	return r.Limit, nil
}

func checkLimit(limit int) error {
	if limit < 1 || limit > MaxPermits {
		return fmt.Errorf("limit of %d permits: must be 1 to %d", limit, MaxPermits)
	}
	return nil
}

// readLimit returns the stored limit. It stores that of NewPermits if there is none.
//
// What it returns can be out of date. A grant checks the version.
func (p *Permits) readLimit(ctx context.Context, s *queueSession) (limitRead, error) {
	for {
		w, err := s.Watch(ctx, p.limitPath, session.WatchNode)
		if errors.Is(err, zk.ErrNoNode) {
			if err := p.createLimit(ctx, s); err != nil {
				return limitRead{}, err
			}
			continue
		}
		if err != nil {
			return limitRead{}, err
		}
		data, stat, _ := w.Content()
		limit, err := decodeLimit(data)
		if err != nil {
			return limitRead{}, &Error{Op: "read", Path: p.limitPath, Err: err}
		}
		return limitRead{limit, stat.Version, w.Fired()}, nil
	}
}

// createLimit stores the limit of NewPermits, unless another client has stored one.
func (p *Permits) createLimit(ctx context.Context, s *queueSession) error {
	for {
		_, err := session.Retry(ctx, s.Session, "create", p.limitPath, func(conn *zk.Conn) (string, error) {
			return conn.Create(p.limitPath, encodeLimit(p.limit), 0, s.settings.acl)
		})
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoNode) && parentOf(p.limitPath) != "/":
			if err := s.CreateParents(ctx, parentOf(p.limitPath), nil); err != nil {
				return err
			}
			continue
		}
		return err
	}
}

// agreedLimit is readLimit for a claim. Its error is a *LimitError if the first limit that this
// process reads is not its own. From then on, the process follows each Resize.
func (p *Permits) agreedLimit(ctx context.Context, s *queueSession) (limitRead, error) {
	l, err := p.readLimit(ctx, s)
	if err != nil {
		return limitRead{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.agreed && l.permits != p.limit {
		return limitRead{}, &Error{Op: "claim", Path: p.queue.path, Err: &LimitError{Path: p.limitPath, Limit: p.limit, Stored: l.permits}}
	}
	p.agreed = true
	return l, nil
}

// follow makes the process follow the stored limit, whatever it is.
func (p *Permits) follow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.agreed = true
}
