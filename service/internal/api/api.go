// SPDX-License-Identifier: Apache-2.0

// Package api is the HTTP interface of the lock service: routes, who may call them, and how requests and answers look.
// It keeps no state of a lock: package lease does that, in ZooKeeper.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/audit"
	"github.com/lockkeeper/lockkeeper/service/internal/history"
	"github.com/lockkeeper/lockkeeper/service/internal/holds"
	"github.com/lockkeeper/lockkeeper/service/internal/limit"
	"github.com/lockkeeper/lockkeeper/service/internal/locktoken"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
	"github.com/lockkeeper/lockkeeper/service/internal/reload"
)

// Locks carries out the lease protocol, as *lease.Replica does.
type Locks interface {
	Acquire(ctx context.Context, received time.Time, req lease.Request) (lease.Grant, error)
	Renew(ctx context.Context, received time.Time, t lease.Ticket, ttl time.Duration) (lease.Grant, error)
	Release(ctx context.Context, t lease.Ticket) error
	Find(ctx context.Context, req lease.Request, token fencing.Token) (lease.Ticket, error)
	ForceRelease(ctx context.Context, f lease.Force) (lease.Forced, error)
	Status(ctx context.Context, path string) (lease.Status, error)
	List(ctx context.Context, parent, prefix string, limit int, after string) ([]lease.Status, string, error)
	Watch(path string) Watch
	Waiters() []lease.Contender
}

// A Watch follows the status of a lock, as *lease.Watch does.
type Watch interface {
	Changed() <-chan struct{}
	Status() (lease.Status, error)
	Close()
}

// A Quota bounds the keys of namespaces, as *quota.Quota does. path is the lock's node.
type Quota interface {
	Admit(ctx context.Context, namespace, path string) error
}

// Options are what an API needs. All fields are required.
type Options struct {
	Locks      Locks
	Actions    Actions
	History    History
	Quota      Quota
	Root       string                                                // path of the node below which each namespace has a node
	Namespaces func(ctx context.Context) (names []string, err error) // of the nodes below Root, in no order
	Principals *reload.File[principal.Directory]
	Keys       *reload.File[locktoken.Keys]
	Audit      *audit.Log // may be nil
	// AuditRenewals adds renewals that were carried out to the audit.
	AuditRenewals bool
	Holds         *holds.Table
	Logger        *slog.Logger
	Registry      *prometheus.Registry
	Ready         func() error    // why the replica cannot serve, nil if it can
	Draining      <-chan struct{} // closed when the replica begins to stop: event streams end then
	Version       string
}

const (
	// callTimeout bounds a request, in addition to the time for which it waits.
	callTimeout = 10 * time.Second
	// maxPoll is the longest time for which one acquire waits: package lease ends it then.
	maxPoll = 20 * time.Second
	// answerTimeout bounds the writing of an answer that came after a long wait.
	answerTimeout = 10 * time.Second
	// unavailableRetry is the pause that the service asks for after a 503.
	unavailableRetry = time.Second
	// fullRetry is the same for a full namespace. ZooKeeper deletes the nodes of keys without contenders once a minute.
	fullRetry = 10 * time.Second
)

// An API answers requests. It is an http.Handler.
type API struct {
	Options
	limiter   *limit.Limiter
	strangers *limit.Strangers
	refusals  *limit.Sampler // those that are logged
	known     knownSummaries
	metrics   *metrics
	huma      huma.API
	handler   http.Handler
}

// New returns an API.
func New(opts Options) *API {
	a := &API{Options: opts, limiter: limit.New(), strangers: limit.NewStrangers(), refusals: limit.NewSampler()}
	a.metrics = newMetrics(a)
	mux := http.NewServeMux()
	config := huma.DefaultConfig("Lockkeeper", opts.Version)
	// This package serves the document itself. Links to schemas would add a field to each answer.
	config.OpenAPIPath, config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", "", nil
	config.Formats = map[string]huma.Format{"application/json": format, "json": format}
	config.RejectUnknownQueryParameters = true
	config.Transformers = []huma.Transformer{asProblem}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer"}, "mutualTLS": {Type: "mutualTLS"},
	}
	a.huma = humago.New(mux, config)
	a.registerLocks()
	a.registerContract()
	a.registerNumeric()
	a.registerReads()
	a.registerNamespaces()
	a.registerActions()
	a.registerEvents()
	a.registerHistory()
	a.registerElections()
	a.registerView(mux)
	a.registerOperations(mux)
	a.handler = a.frontDoor(mux)
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// OpenAPI returns the description of the routes, which requests are validated against.
func (a *API) OpenAPI() *huma.OpenAPI { return a.huma.OpenAPI() }

// Actions keeps the newest administrative actions of all replicas, as *actions.Store does. A name belongs to an entry.
type Actions interface {
	Begin(ctx context.Context, e audit.Event) (name string, err error)
	End(ctx context.Context, name string, e audit.Event) error
	Withdraw(ctx context.Context, name string, e audit.Event) error // it has changed nothing
	// List returns the newest first, of the namespaces that may returns true for.
	List(ctx context.Context, may func(namespace string) bool, limit int) ([]audit.Event, error)
}

// History keeps the last grants and forced releases of each lock, as *history.Log does.
type History interface {
	Add(namespace, key string, e history.Entry)
	List(ctx context.Context, namespace, key string) ([]history.Entry, error) // the newest first
}
