// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/report"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/tuning"
)

// A Guard is recipes.Guard.
type Guard interface {
	Rehearse(ctx context.Context, servers []string, timeout time.Duration) error
	Protect(ctx context.Context, servers []string, session int64, password []byte, timeout time.Duration) error
	Forget(session int64)
	Guarded(session int64) error
}

// Config are how a client opens its sessions. Only auth, sasl, tls and guard may be empty.
type Config struct {
	Servers        []string
	SessionTimeout time.Duration
	Namespace      string
	Owner          string
	ACL            []zk.ACL
	Auth           []session.Auth
	SASL           session.SASL // nil: none
	TLS            *tls.Config
	Logger         *slog.Logger
	Trace          report.Hooks
	Guard          Guard // nil: none
	Dial           func(ctx context.Context, network, address string) (net.Conn, error)
	MaxReply       int // see session.Config
	Tuning         tuning.Tuning
	Containers     session.Containers

	// Fail returns the error of an operation on path in the form that the library returns.
	Fail func(op, path string, err error) error

	// Revoked returns why the data of an overwritten node ends what was granted on it, or nil
	// if the data gives no reason.
	Revoked func(data []byte) error
}
