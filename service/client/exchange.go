// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// maxAnswer is more than any answer needs. A page of a list has 1 MiB of metadata and one lock, of which a character can be six bytes.
const maxAnswer = 16 << 20

var errTooLong = fmt.Errorf("the answer is over %d bytes", maxAnswer)

// A place is a lock or an election of the service.
type place struct {
	kind           string // locks or elections
	namespace, key string
}

func (p place) String() string { return p.namespace + "/" + p.key }

// path returns the path of an operation on the place.
func (p place) path(operation string) string {
	return "/v1/" + p.kind + "/" + escape(p.namespace) + "/" + escape(p.key) + "/" + operation
}

// escape returns a segment of a path. Dot segments are escaped too: servers and proxies would resolve them.
func escape(segment string) string {
	if segment == "." || segment == ".." {
		return strings.ReplaceAll(segment, ".", "%2E")
	}
	return url.PathEscape(segment)
}

// exchange sends one request to the current replica, and decodes a 2xx answer into out unless that is nil. It returns the
// status. Every other answer is a *Problem. After an error that is not definite, the next call uses the next replica, unless the
// caller has cancelled the request.
func (c *Client) exchange(ctx context.Context, method, path string, timeout time.Duration, in, out any) (status int, err error) {
	n, caller := c.current.Load(), ctx
	defer func() {
		if err != nil && !definite(err) && !canceled(caller) {
			c.current.CompareAndSwap(n, n+1)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	req, err := c.request(ctx, n, method, path, in)
	if err != nil {
		return 0, &unsentError{err}
	}
	res, err := c.do(req)
	if err != nil {
		return 0, withCause(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // the answer was read by then
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return res.StatusCode, problemOf(ctx, res)
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = errTooLong
	}
	if err != nil {
		return 0, fmt.Errorf("read answer of %s: %w", req.URL.Host, withCause(ctx, err))
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			return 0, fmt.Errorf("decode answer of %s: %w", req.URL.Host, err)
		}
	}
	return res.StatusCode, nil
}

// share returns how long one of several attempts may take: longest, or less if ctx ends soon, so that a replica that does not
// answer leaves time for the others.
func (c *Client) share(ctx context.Context, longest time.Duration) time.Duration {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return longest
	}
	return min(longest, max(time.Second, time.Until(deadline)/time.Duration(len(c.bases))))
}

// canceled reports whether the caller has given up. The replica has then done nothing wrong.
func canceled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// do sends a request. Its error is an unsentError if no connection was there to send it on: the error of a dial that ctx cuts short does
// not show that. A transport that makes no use of httptrace shows nothing.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	var sought, found atomic.Bool
	res, err := c.http.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { sought.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { found.Store(true) },
	})))
	if err != nil && sought.Load() && !found.Load() {
		err = &unsentError{err}
	}
	return res, err
}

// An unsentError is the error of a request that no replica received.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// request returns a request to the n-th replica.
func (c *Client) request(ctx context.Context, n uint32, method, path string, in any) (*http.Request, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.bases[n%uint32(len(c.bases))]+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.bearer != nil {
		token, err := c.bearer()
		if err != nil {
			return nil, fmt.Errorf("read bearer token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// problemOf returns the refusal that an answer is.
func problemOf(ctx context.Context, res *http.Response) error {
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", res.Request.URL.Host, withCause(ctx, err))
	}
	p := &Problem{}
	if json.Unmarshal(answer, p) != nil {
		p = &Problem{} // of a proxy: the status is all that is known
	}
	p.Status = res.StatusCode
	return p
}

// withCause adds why ctx ended, if it did.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// unsent reports whether err shows that no replica received the request.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, new(*unsentError)) || errors.As(err, &op) && op.Op == "dial"
}

// A backoff computes the time before a request is repeated: none before each replica was tried once, and then twice as much
// after each round.
type backoff struct {
	replicas, failures int
	longest            time.Duration
}

func (c *Client) backoff(longest time.Duration) *backoff {
	return &backoff{replicas: len(c.bases), longest: longest}
}

// after returns the time to wait after another failure.
func (b *backoff) after(err error) time.Duration {
	b.failures++
	var p *Problem
	if errors.As(err, &p) && p.Status == http.StatusTooManyRequests {
		return max(b.longest/2, time.Duration(p.RetryAfterMillis)*time.Millisecond)
	}
	round := b.failures / b.replicas
	if round == 0 {
		return 0
	}
	d := min(25*time.Millisecond<<min(round, 16), b.longest)
	return d/2 + rand.N(d/2+1)
}

// reset forgets the failures, after an answer.
func (b *backoff) reset() { b.failures = 0 }
