// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// A serviceAccess has the flags that name a lock service and how to use it.
type serviceAccess struct {
	url       string // one, or several separated by commas; empty for an ensemble
	tokenFile string
	ttl       time.Duration // of a lease; 0 for the default
}

func (s *serviceAccess) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.url, "url", "", "`URL` of a lock service, to use in place of an ensemble; several replicas' separated\nby commas (default: the environment variable "+urlVariable+")")
	flags.StringVar(&s.tokenFile, "token-file", "", "with --url, `file` of the bearer token, read for each request")
}

// urlVariable is the environment variable that names the lock service if no flag names a service or servers.
const urlVariable = "LOCKKEEPER_URL"

// check sets the URL from the environment if no flag does, and returns an error for wrong usage. names are of locks and
// elections.
func (s *serviceAccess) check(cmd *cobra.Command, c *connection, names ...string) error {
	changed := cmd.Flags().Changed
	if url := os.Getenv(urlVariable); url != "" && s.url == "" && !changed("servers") {
		if os.Getenv(serversVariable) != "" {
			return usageErrorf("%s and %s are both set: choose with --url or --servers", urlVariable, serversVariable)
		}
		s.url = url
	}
	if s.url == "" {
		for _, flag := range []string{"token-file", "ttl"} {
			if changed(flag) {
				return usageErrorf("--%s needs --url", flag)
			}
		}
		return nil
	}
	for _, flag := range []string{"servers", "namespace", "session-timeout", "auth-file"} {
		if changed(flag) {
			return usageErrorf("--url and --%s exclude each other", flag)
		}
	}
	for _, name := range names {
		namespace, key, _ := strings.Cut(name, "/")
		if namespace == "" || key == "" {
			return usageErrorf("%q is not NAMESPACE/KEY, as --url needs", name)
		}
	}
	return c.checkCommon()
}

// connect returns a client of the service. owner may be empty.
func (s *serviceAccess) connect(owner string, c *connection) (*client.Client, error) {
	bearer := s.bearer()
	if bearer != nil {
		if _, err := bearer(); err != nil {
			return nil, usageErrorf("--token-file: %w", err)
		}
	}
	encryption, err := c.certificates.config()
	if err != nil {
		return nil, err
	}
	locks, err := client.New(s.url, &client.Options{Owner: owner, TTL: s.ttl, Bearer: bearer, TLS: encryption})
	if err != nil {
		return nil, usageErrorf("--url: %w", err)
	}
	return locks, nil
}

// grantor waits until the service answers, and returns it as a grantor.
func (s *serviceAccess) grantor(ctx context.Context, owner string, c *connection, stderr io.Writer) (grantor, error) {
	locks, err := s.connect(owner, c)
	if err != nil {
		return nil, err
	}
	defer remind(ctx, "run", locks.Ready, stderr)()
	bounded, cancel := c.bound(ctx)
	defer cancel()
	switch err := locks.Ready(bounded); {
	case err == nil:
		return leases{locks, c, stderr}, nil
	case ctx.Err() != nil:
		return nil, &statusError{statusFailed, err}
	default:
		return nil, &statusError{statusUnavailable, err}
	}
}

// bearer returns a function that reads the token, nil if there is no file.
func (s *serviceAccess) bearer() func() (string, error) {
	if s.tokenFile == "" {
		return nil
	}
	return func() (string, error) {
		content, err := os.ReadFile(s.tokenFile)
		return strings.TrimSpace(string(content)), err
	}
}

// leases is the grantor of the holds of a lock service.
type leases struct {
	*client.Client
	connection *connection
	stderr     io.Writer
}

// Path returns the name, which is NAMESPACE/KEY.
func (l leases) Path(name string) string { return name }

// close returns no error: the supervisor has reported the release's.
func (l leases) close() { _ = l.Close() }

func (l leases) acquire(ctx context.Context, a *runArguments) (hold, error) {
	ctx, cancel := a.bound(ctx)
	defer cancel()
	defer remind(ctx, "run", l.Ready, l.stderr)()
	namespace, key, _ := strings.Cut(a.paths()[0], "/")
	take := l.Lock
	switch {
	case a.elect != "":
		take = func(ctx context.Context, namespace, key string) (*client.Hold, error) {
			return l.Campaign(ctx, namespace, key, "")
		}
	case a.try:
		ctx, cancel = l.connection.bound(ctx)
		defer cancel()
		take = l.TryLock
	}
	h, err := take(ctx, namespace, key)
	switch {
	case err == nil:
		return lease{h}, nil
	case errors.Is(err, context.Canceled):
		return nil, &statusError{statusFailed, err}
	case errors.Is(err, client.ErrUnavailable) && (!errors.Is(err, errWait) || !l.answers(ctx)):
		return nil, &statusError{statusUnavailable, err}
	case errors.Is(err, client.LockAlreadyHeld), errors.Is(err, context.DeadlineExceeded):
		return nil, &statusError{statusFailed, a.notGranted(err)}
	case errors.Is(err, client.Unauthenticated) && a.service.tokenFile == "" && l.connection.certificates.cert == "":
		return nil, internal(fmt.Errorf("%w: --token-file, or --cert and --key, identify the caller", err))
	}
	return nil, internal(err)
}

// answers reports whether a replica answers now: a wait can end a moment before its answer.
func (l leases) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return l.Ready(ctx) == nil
}

// A lease is a hold of a lock service.
type lease struct{ *client.Hold }

func (l lease) tokens() []fencing.Token { return []fencing.Token{l.Token()} }

func (l lease) release(ctx context.Context) error { return l.Unlock(ctx) }

// grace ends with the lease, and an eighth of its TTL after the notification at the latest. The wall clock also counts the
// time in which the machine was suspended.
func (l lease) grace(now time.Time) time.Duration {
	end := l.ValidUntil()
	return max(0, min(end.Sub(l.Deadline()), end.Sub(now), end.Round(0).Sub(now.Round(0))))
}
