// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Status is what the service knows of a lock or an election. It may be out of date when the caller gets it: do not decide by
// it who may write.
type Status struct {
	Key      string            `json:"lockKey"`
	Locked   bool              `json:"locked"`  // the fields that follow describe the holder
	Owner    string            `json:"ownerId"` // for a holder that uses a library, its label
	Token    fencing.Token     `json:"fencingToken"`
	Kind     string            `json:"kind"`      // lease, session (of package lock or election), or foreign
	Expires  int64             `json:"expiresAt"` // when a lease ends unless it is renewed: ms since the epoch, by ZooKeeper's clock
	Revoked  bool              `json:"revoked"`   // the holder was asked to stop
	Metadata map[string]string `json:"metadata"`
	Waiters  int               `json:"queueLength"`
}

// Status reads a lock or an election, which is free if nothing is known of it. While no replica answers, Status repeats the
// request until ctx is done; the error then has ErrUnavailable.
func (c *Client) Status(ctx context.Context, namespace, key string) (*Status, error) {
	p := place{"locks", namespace, key}
	s := &Status{}
	err := c.ask(ctx, "read", p.String(), http.MethodGet, strings.TrimSuffix(p.path(""), "/"), nil, s)
	if errors.Is(err, LockNotFound) {
		return &Status{Key: key}, nil
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// List returns the locks and elections of a namespace that have a holder and whose keys begin with prefix, in the order of the
// names of their nodes. It reads them in pages, so that a lock can change its holder meanwhile. If a read fails, the
// last element is the error, as from Status.
func (c *Client) List(ctx context.Context, namespace, prefix string) iter.Seq2[*Status, error] {
	return func(yield func(*Status, error) bool) {
		for next := ""; ; {
			query := url.Values{"namespace": {namespace}, "prefix": {prefix}, "page": {next}}
			page := struct {
				Locks    []*Status `json:"locks"`
				NextPage string    `json:"nextPage"`
			}{}
			if err := c.ask(ctx, "list", namespace, http.MethodGet, "/v1/locks?"+query.Encode(), nil, &page); err != nil {
				yield(nil, err)
				return
			}
			for _, s := range page.Locks {
				if s.Locked && !yield(s, nil) {
					return
				}
			}
			if next = page.NextPage; next == "" {
				return
			}
		}
	}
}

// A Force takes a lock from its holder.
type Force struct {
	Token  fencing.Token // of the holder: a repeat cannot hit its successor
	Reason string        // which the holder gets
	// Now frees the lock immediately, although the holder can go on: only the fencing token protects the
	// resource. Otherwise the holder is notified, and the lock is free once it must have stopped.
	Now bool

	_ struct{}
}

// ForceRelease takes a lock or an election from its holder. The caller needs the role of an administrator. It repeats a request
// that has no definite answer until ctx is done; if an earlier one was carried out, the error is LockNotFound or HolderChanged.
func (c *Client) ForceRelease(ctx context.Context, namespace, key string, f Force) error {
	body := struct {
		Token  string `json:"fencingToken"`
		Reason string `json:"reason"`
		Mode   string `json:"mode"`
	}{f.Token.String(), f.Reason, "safe"}
	if f.Now {
		body.Mode = "now"
	}
	p := place{"locks", namespace, key}
	return c.ask(ctx, "release", p.String(), http.MethodPost, p.path("force-release"), body, nil)
}

// ask repeats a request until it has a definite answer, or ctx is done.
func (c *Client) ask(ctx context.Context, op, object, method, path string, in, out any) error {
	b := c.backoff(time.Second)
	for {
		_, err := c.exchange(ctx, method, path, c.share(ctx, 25*time.Second), in, out)
		switch {
		case err == nil:
			return nil
		case definite(err), errors.Is(err, errTooLong):
			return &Error{Op: op, Object: object, Err: err}
		}
		if !sleep(ctx, b.after(err)) {
			return &Error{Op: op, Object: object, Err: unavailable(ctx, err)}
		}
	}
}

// silence is how long a stream of events may be silent: the service sends a comment every 15 s.
const silence = 35 * time.Second

// Observe yields the status of a lock or an election, and then each change, until ctx is done. A caller that is slow misses
// changes that a newer one has replaced. When a replica is gone, Observe goes on at the next one. Its last element is the error:
// ctx's, or a refusal.
func (c *Client) Observe(ctx context.Context, namespace, key string) iter.Seq2[*Status, error] {
	return func(yield func(*Status, error) bool) {
		p := place{"locks", namespace, key}
		b := c.backoff(time.Second)
		for {
			err := c.follow(ctx, p, func(s *Status) bool {
				b.reset()
				return yield(s, nil)
			})
			switch {
			case err == nil:
				return // the caller has ended the iteration
			case ctx.Err() != nil:
				err = causeOf(ctx)
			case !definite(err):
				if sleep(ctx, b.after(err)) {
					continue
				}
				err = unavailable(ctx, err)
			}
			yield(nil, &Error{Op: "observe", Object: p.String(), Err: err})
			return
		}
	}
}

// follow passes the statuses of one stream on, and returns why the stream ended: nil if yield returned false.
func (c *Client) follow(ctx context.Context, p place, yield func(*Status) bool) (err error) {
	n, caller := c.current.Load(), ctx
	defer func() {
		if err != nil && !definite(err) && !canceled(caller) {
			c.current.CompareAndSwap(n, n+1)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(silence, func() { cancel(fmt.Errorf("no event within %v", silence)) })
	defer silent.Stop()
	req, err := c.request(ctx, n, http.MethodGet, p.path("events"), nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return withCause(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // a stream has no end
	if res.StatusCode != http.StatusOK {
		return problemOf(ctx, res)
	}
	event, rows := "", bufio.NewReader(res.Body)
	for {
		row, err := rows.ReadString('\n')
		if err != nil {
			return fmt.Errorf("read events: %w", withCause(ctx, err))
		}
		silent.Reset(silence)
		if name, ok := strings.CutPrefix(row, "event: "); ok {
			event = strings.TrimSpace(name)
		}
		data, ok := strings.CutPrefix(row, "data: ")
		if !ok {
			continue
		}
		if event == "problem" {
			problem := &Problem{}
			return errors.Join(json.Unmarshal([]byte(data), problem), problem)
		}
		s := &Status{}
		if err := json.Unmarshal([]byte(data), s); err != nil {
			return fmt.Errorf("decode event: %w", err)
		}
		if !yield(s) {
			return nil
		}
	}
}
