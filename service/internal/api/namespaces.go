// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/key"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

const (
	summaryPage  = 50               // namespaces on a page
	summaryLocks = 100              // locks of a namespace that are counted
	summaryAge   = 10 * time.Second // for which the numbers of a namespace are not read again
	summaryStale = time.Minute      // after which numbers that could not be read again are not shown
	summaryTime  = 3 * time.Second  // after which a call with numbers reads no further namespace: its caller asks again
	countTime    = 4 * time.Second  // for one namespace, which its tenants can keep busy: longer than lease's List reads a page
	maxSummaries = 4096             // that are remembered
)

// summary is what may be known of a namespace.
type summary struct {
	Namespace string `json:"namespace"`
	Locks     int    `json:"locks" doc:"Held, of the first 100 keys in the order of their nodes"`
	Waiters   int    `json:"waiters" doc:"Contenders that wait for these"`
	HeldSince int64  `json:"heldSince,omitempty" doc:"When the holder that was first to do so joined its queue: its hold is at most so long. ms since the epoch"`
	More      bool   `json:"more,omitempty" doc:"Further locks were not counted"`
	ReadAt    int64  `json:"readAt,omitempty" doc:"When these were counted: ms since the epoch. Missing if they were not, because there was no time or no permission"`
}

// summaries is a part of the namespaces.
type summaries struct {
	Namespaces []summary `json:"namespaces" doc:"Those that the caller may use, in order. Of those named to it, also the empty ones"`
	NextPage   string    `json:"nextPage,omitempty" doc:"Missing on the last page"`
}

type summariesRequest struct {
	Page string `query:"page" maxLength:"64" doc:"nextPage of the page before"`
}

func (a *API) registerNamespaces() {
	register(a, operation{
		name: "namespaces", method: http.MethodGet, path: "/v1/namespaces", everywhere: true,
		summary: "List the namespaces that the caller may use, with the number of their locks and waiters", answers: map[int]any{200: summaries{}},
	}, func(ctx context.Context, c *call, in *summariesRequest) (*answer, error) {
		found, err := a.summarize(ctx, c.principal, in.Page)
		return &answer{Status: http.StatusOK, Body: found}, err
	})
}

// summarize returns the namespaces of a principal that follow after.
func (a *API) summarize(ctx context.Context, who *principal.Principal, after string) (*summaries, error) {
	ctx, cancel := bound(ctx, 0)
	defer cancel()
	if err := key.CheckNamespace(after); after != "" && err != nil {
		return nil, invalid("query.page", "this is not the nextPage of another page").because(err)
	}
	names := slices.Clone(who.Namespaces)
	if who.MayUse("*") {
		all, err := a.Namespaces(ctx)
		if err != nil {
			return nil, err
		}
		names = append(names, all...)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return name <= after || key.CheckNamespace(name) != nil // as "*" and the service's own nodes
	})
	out := &summaries{}
	if len(names) > summaryPage {
		names = names[:summaryPage]
		out.NextPage = names[summaryPage-1]
	}
	var err error
	out.Namespaces, err = a.known.read(ctx, names, func(ctx context.Context, name string) (*summary, error) {
		found, next, err := a.Locks.List(ctx, a.Root+"/"+name, "", summaryLocks, "")
		if errors.Is(err, zk.ErrNoAuth) {
			return &summary{Namespace: name}, nil // it must not hide the others
		}
		return summaryOf(name, found, next != ""), err
	})
	if out.Namespaces == nil {
		return nil, err
	}
	if err != nil { // at most once in summaryAge for each namespace
		a.Logger.Warn("namespaces not counted", "request", callOf(ctx).id, "error", err)
	}
	return out, nil
}

// summaryOf counts the locks of a namespace.
func summaryOf(name string, found []lease.Status, more bool) *summary {
	out := &summary{Namespace: name, More: more, ReadAt: time.Now().UnixMilli()}
	for _, s := range found {
		if len(s.Contenders) == 0 {
			continue
		}
		d := describe("", s)
		if d.Locked {
			out.Locks++
		}
		out.Waiters += d.QueueLength
		if d.CreatedAt != 0 && (out.HeldSince == 0 || d.CreatedAt < out.HeldSince) {
			out.HeldSince = d.CreatedAt
		}
	}
	return out
}

// knownSummaries are those that were read recently, shared by all callers: however many ask, the ensemble is asked for a
// namespace once in each summaryAge.
type knownSummaries struct {
	mu    sync.Mutex // guards what follows
	known map[string]*knownSummary
}

type knownSummary struct {
	begun time.Time // when the last read began
	last  summary
}

// read returns the summaries of namespaces. It calls fetch for those that are old, the oldest first, for about summaryTime.
// The error joins the errors of fetch. With it, the summaries are nil if no numbers are known: a namespace that cannot be
// read must not hide the others.
func (k *knownSummaries) read(ctx context.Context, names []string, fetch func(ctx context.Context, name string) (*summary, error)) ([]summary, error) {
	var (
		end    = time.Now().Add(summaryTime)
		failed error
		quick  []string // namespaces that failed before countTime
	)
	for _, name := range k.oldestFirst(names) {
		if time.Now().After(end) {
			if _, counted := k.latest(names); counted || failed == nil {
				break
			}
		}
		if ctx.Err() != nil {
			failed = errors.Join(failed, context.Cause(ctx))
			break
		}
		if !k.begin(name) {
			continue // another call reads it, or could not
		}
		fetching, cancel := context.WithTimeoutCause(ctx, countTime, errors.New("the namespace is busy"))
		s, err := fetch(fetching, name)
		slow := errors.Is(fetching.Err(), context.DeadlineExceeded)
		cancel()
		if err == nil {
			k.finish(s)
			continue
		}
		failed = errors.Join(failed, fmt.Errorf("count the locks of namespace %s: %w", name, err))
		if !slow {
			quick = append(quick, name)
		}
	}
	out, counted := k.latest(names)
	callerGone := errors.Is(ctx.Err(), context.Canceled)
	if failed != nil && (!counted || callerGone) {
		k.retry(quick)
		return nil, failed
	}
	return out, failed
}

// latest returns what is known of namespaces, and whether that includes numbers.
func (k *knownSummaries) latest(names []string) (out []summary, counted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out = make([]summary, 0, len(names))
	for _, name := range names {
		s := summary{Namespace: name}
		if known := k.known[name]; known != nil && time.Since(time.UnixMilli(known.last.ReadAt)) < summaryStale {
			s, counted = known.last, true
		}
		out = append(out, s)
	}
	return out, counted
}

// oldestFirst returns the names in the order in which they were read.
func (k *knownSummaries) oldestFirst(names []string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	begun := func(name string) (t time.Time) {
		if known := k.known[name]; known != nil {
			t = known.begun
		}
		return t
	}
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return begun(a).Compare(begun(b)) })
	return names
}

// begin reports whether the caller has to read a namespace: no other call has begun to do so within summaryAge.
func (k *knownSummaries) begin(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, now := k.known[name], time.Now()
	if known == nil {
		if k.known == nil || len(k.known) >= maxSummaries {
			k.known = make(map[string]*knownSummary) // all are read again
		}
		known = &knownSummary{}
		k.known[name] = known
	}
	if now.Sub(known.begun) < summaryAge {
		return false
	}
	known.begun = now
	return true
}

// finish keeps what was read.
func (k *knownSummaries) finish(s *summary) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.known[s.Namespace]; known != nil {
		known.last = *s
	}
}

// retry lets the next call read namespaces immediately. After a failure that takes time it must not: that call would be as slow.
func (k *knownSummaries) retry(names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		if known := k.known[name]; known != nil {
			known.begun = time.Time{}
		}
	}
}
