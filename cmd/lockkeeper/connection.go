// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/connectstring"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// serversVariable is the environment variable that names the servers if no flag does.
const serversVariable = "LOCKKEEPER_SERVERS"

// A connection has the flags that name an ensemble and how to connect to it.
type connection struct {
	servers        string // a connect string
	namespace      string
	sessionTimeout time.Duration // to request
	connectTimeout time.Duration // bounds the wait for a session
	authFile       string
	certificates   certificates  // to a lock service too
	guard          recipes.Guard // nil: none
}

// addFlags adds the flags to a command.
func (c *connection) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.servers, "servers", "", "`list` of the servers, host:port,…[/chroot] (default: the environment variable\n"+serversVariable+")")
	flags.StringVar(&c.namespace, "namespace", "", "`path` that is put in front of every path")
	flags.DurationVar(&c.sessionTimeout, "session-timeout", recipes.DefaultSessionTimeout, "session timeout to request, at least 1s and four ticks of the servers")
	flags.DurationVar(&c.connectTimeout, "connect-timeout", 10*time.Second, "how long to wait for a server")
	flags.StringVar(&c.authFile, "auth-file", "", "`file` with a credential for the servers, user:password (ZooKeeper's scheme\ndigest)")
	c.certificates.addFlags(flags, "", "the servers")
	completeFlag(cmd, "namespace", c.complete(nil))
}

// check sets the servers from the environment if no flag does, and returns an error for
// wrong usage.
func (c *connection) check() error {
	if c.servers == "" {
		c.servers = os.Getenv(serversVariable)
	}
	switch {
	case c.servers == "":
		return usageErrorf("--servers is missing: name the servers, or set %s", serversVariable)
	case c.sessionTimeout < time.Second:
		return usageErrorf("--session-timeout %v is below the minimum of %v", c.sessionTimeout, time.Second)
	}
	if err := c.checkCommon(); err != nil {
		return err
	}
	if err := connectstring.Check([]string{c.servers}); err != nil {
		return usageErrorf("--servers: %w", err)
	}
	return nil
}

// checkCommon returns an error for wrong usage of the flags that apply to a lock service too.
func (c *connection) checkCommon() error {
	if c.connectTimeout <= 0 {
		return usageErrorf("--connect-timeout %v is not positive", c.connectTimeout)
	}
	return c.certificates.check()
}

// credentials returns the file's, nil if there is none.
func (c *connection) credentials() ([]recipes.Auth, error) {
	if c.authFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(c.authFile)
	if err != nil {
		return nil, usageErrorf("--auth-file: %w", err)
	}
	user, password, found := strings.Cut(strings.TrimSpace(string(content)), ":")
	if !found || user == "" {
		return nil, usageErrorf("--auth-file: read %s: the content is not user:password", c.authFile)
	}
	return []recipes.Auth{recipes.Digest(user, password)}, nil
}

// connect checks the flags and opens a session. owner may be empty.
func (c *connection) connect(ctx context.Context, owner string, stderr io.Writer) (*recipes.Client, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	auth, err := c.credentials()
	if err != nil {
		return nil, err
	}
	encryption, err := c.certificates.config()
	if err != nil {
		return nil, err
	}
	bounded, cancel := c.bound(ctx)
	defer cancel()
	client, err := recipes.Connect(bounded, []string{c.servers}, &recipes.Options{
		SessionTimeout: c.sessionTimeout,
		Namespace:      c.namespace,
		Owner:          owner,
		Auth:           auth,
		TLS:            encryption,
		Guard:          c.guard,
		Logger:         slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	switch {
	case err == nil:
		return client, nil
	case ctx.Err() != nil:
		return nil, &statusError{statusFailed, err}
	case bounded.Err() != nil:
		return nil, &statusError{statusUnavailable, err}
	case c.guard != nil:
		return nil, &statusError{statusInternal, err}
	}
	return nil, usageErrorf("%w", err) // Connect checks the arguments that this command does not
}

// queue connects, and returns the queue at path. The caller closes the client.
func (c *connection) queue(cmd *cobra.Command, path string) (*recipes.Client, *queue.Queue, error) {
	if err := absolute(path); err != nil {
		return nil, nil, err
	}
	client, err := c.connect(cmd.Context(), "", cmd.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	queue, err := queue.New(client, path, nil)
	if err != nil {
		client.Close()
		return nil, nil, usageErrorf("%w", err)
	}
	return client, queue, nil
}

// addresses returns the servers as host:port, for a checked connection.
func (c *connection) addresses() []string {
	hosts, _, _ := strings.Cut(c.servers, "/")
	addresses := strings.Split(hosts, ",")
	for i, address := range addresses {
		address = strings.Trim(address, " ")
		if _, _, err := net.SplitHostPort(address); err != nil {
			address += ":2181" // check has refused everything else
		}
		addresses[i] = address
	}
	return addresses
}

// only returns the connection with these servers in place of those it has, nil if there are none.
func (c *connection) only(addresses []string) *connection {
	if len(addresses) == 0 {
		return nil
	}
	other := *c
	other.servers = strings.Join(addresses, ",")
	if _, chroot, found := strings.Cut(c.servers, "/"); found {
		other.servers += "/" + chroot
	}
	return &other
}

// bound returns a context for requests that wait for no other client.
func (c *connection) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.connectTimeout, &overdue{errNoServer, c.connectTimeout})
}

// An overdue is the cause of a context that has ended after a time. For errors.Is it is a context.DeadlineExceeded too, so
// that no text needs both.
type overdue struct {
	what  error
	after time.Duration
}

// Error returns what is overdue, and the time.
func (o *overdue) Error() string { return fmt.Sprintf("%v (%v)", o.what, o.after) }

// Is reports whether target is what is overdue, or context.DeadlineExceeded.
func (o *overdue) Is(target error) bool {
	return target == o.what || target == context.DeadlineExceeded
}
