// SPDX-License-Identifier: Apache-2.0

// Package client takes locks and leads elections through the lock service, from a program that cannot hold a ZooKeeper
// session. Where ZooKeeper can be reached, use package lock or election: their holders are notified of a loss before ZooKeeper
// can grant the lock to another client, and all holds of a process share the heartbeats of one session.
//
// A Hold is valid until its lease ends, by the clock of this process. The client renews the lease, and closes Done an eighth
// of the TTL before the end if it could not. The promise, that Done is closed before another client is granted the lock, has
// two conditions: the rates of monotonic clocks differ by less than 1/64, and this process is scheduled. A paused process can
// act after the end: pass Hold.Token to the resource, and let the resource check it. With a forced release in mode now, the
// lock is granted before the holder can know.
//
// What a failure does: a lost answer, a 503 and the death of a replica are retried, at the next replica, with the same
// requestId. If a replica does not answer a call that has a deadline, the next one is asked after a share of the time that is left:
// that time divided by the number of replicas, and 1 s at least. If it falls silent while a request waits there, the next one is
// asked at the end of that wait. A holder without any replica keeps its hold until the deadline. A waiter keeps its position if a
// replica answers within 15 s, or within 5 s if the last one had answered 202.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// DefaultTTL is how long a lease lasts without a renewal unless Options say otherwise.
const DefaultTTL = 30 * time.Second

// releaseTimeout bounds a release, and the withdrawal of an acquisition whose caller has given up.
const releaseTimeout = 5 * time.Second

// connectTimeout bounds the lookup of a replica's name and the connection to it. A host that is down may answer nothing.
const connectTimeout = 2 * time.Second

// Options are the options of a Client. The zero value of a field means its default.
type Options struct {
	// Owner is the label that other clients see, of 256 characters at most. The default is the host and the
	// process id.
	Owner string
	// TTL is how long a lease lasts without a renewal, from 1 s to 1 h in whole milliseconds. The default is
	// DefaultTTL. It is the time for which a holder that died blocks the lock.
	TTL time.Duration
	// Bearer returns the token that identifies the caller to the service. It is called for each request, so
	// that a token can be rotated, and must not block. The default sends none.
	Bearer func() (string, error)
	// TLS has the certificates of the service's authority and of this client. The default trusts the system's
	// authorities.
	TLS *tls.Config
	// Transport, if not nil, returns what sends the requests in place of base, which it calls: for spans, for instance,
	// OpenTelemetry's otelhttp.NewTransport, which sends the trace of the caller to the service.
	Transport func(base http.RoundTripper) http.RoundTripper

	_ struct{}
}

// A Client takes locks from the replicas of one lock service. It is safe for concurrent use.
type Client struct {
	bases   []string // the replicas' URLs
	names   []string // the same without users and passwords, for errors
	current atomic.Uint32
	owner   string
	ttl     time.Duration
	bearer  func() (string, error)
	now     func() time.Time // a test replaces it
	http    *http.Client
	idle    func() // closes idle connections, which a RoundTripper around the transport need not pass on

	closing context.Context // done once Close is called
	close   context.CancelFunc

	mu    sync.Mutex // guards what follows
	holds map[*Hold]struct{}
}

// New returns a client of the service at a URL, or at the URLs of several replicas, separated by commas. It sends no request.
// opts may be nil.
func New(urls string, opts *Options) (*Client, error) {
	if opts == nil {
		opts = &Options{}
	}
	c := &Client{owner: opts.Owner, ttl: cmp.Or(opts.TTL, DefaultTTL), bearer: opts.Bearer, now: time.Now, holds: map[*Hold]struct{}{}}
	for base := range strings.SplitSeq(urls, ",") {
		base = strings.TrimRight(strings.TrimSpace(base), "/")
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("new client: %q is not the URL of a lock service", withoutUser(base))
		}
		c.bases = append(c.bases, base)
		c.names = append(c.names, u.Redacted())
	}
	if c.owner == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("new client: %w", err)
		}
		c.owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	switch {
	case utf8.RuneCountInString(c.owner) > 256:
		return nil, errors.New("new client: the owner is over 256 characters")
	case c.ttl < time.Second || c.ttl > time.Hour || c.ttl%time.Millisecond != 0:
		return nil, fmt.Errorf("new client: TTL %v is not between 1s and 1h in whole milliseconds", c.ttl)
	}
	// HTTP/1.1: a request that times out closes its connection. With HTTP/2 the next request would take the same one.
	transport := defaultTransport()
	transport.TLSClientConfig = opts.TLS.Clone()
	transport.ForceAttemptHTTP2 = false
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	if dial := transport.DialContext; dial != nil { // perhaps the program's own
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			return dial(ctx, network, address)
		}
	}
	c.idle = transport.CloseIdleConnections
	var sender http.RoundTripper = transport
	if opts.Transport != nil {
		sender = opts.Transport(transport)
	}
	c.http = &http.Client{
		Transport:     sender,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.closing, c.close = context.WithCancel(context.Background())
	return c, nil
}

// defaultTransport returns a copy of http.DefaultTransport, or of what it was if the program has replaced it by another kind.
func defaultTransport() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{
		Proxy:        http.ProxyFromEnvironment,
		DialContext:  (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConns: 100, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}

// withoutUser returns what does not belong to a URL's user or password. url.URL.Redacted needs a URL that can be parsed.
func withoutUser(base string) string {
	if at := strings.LastIndexByte(base, '@'); at >= 0 {
		return "…" + base[at:]
	}
	return base
}

// Owner returns the label that other clients see.
func (c *Client) Owner() string { return c.owner }

// Ready waits until a replica reports that a quorum of ZooKeeper answers it. The error is ctx's, with the last failure.
func (c *Client) Ready(ctx context.Context) error {
	b := c.backoff(time.Second)
	for {
		_, err := c.exchange(ctx, http.MethodGet, "/readyz", c.share(ctx, 5*time.Second), nil, nil)
		if err == nil {
			return nil
		}
		if !sleep(ctx, b.after(err)) {
			return &Error{Op: "reach", Object: strings.Join(c.names, ","), Err: unavailable(ctx, err)}
		}
	}
}

// Close unlocks the holds that are left, for which Done is closed first, and waits for that: 5 s at most. Later acquisitions,
// and those that wait, return ErrClosed. The error joins the errors of the unlocks.
func (c *Client) Close() error {
	c.close()
	c.mu.Lock()
	holds := make([]*Hold, 0, len(c.holds))
	for h := range c.holds {
		holds = append(holds, h)
	}
	c.mu.Unlock()
	results := make([]error, len(holds))
	var unlocking sync.WaitGroup
	for i, h := range holds {
		unlocking.Go(func() { results[i] = h.Unlock(context.Background()) })
	}
	unlocking.Wait()
	c.idle()
	return errors.Join(results...)
}

// add registers a hold for Close, and reports whether the client is open.
func (c *Client) add(h *Hold) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return false
	}
	c.holds[h] = struct{}{}
	return true
}

func (c *Client) remove(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holds, h)
}

// sleep waits, and reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
