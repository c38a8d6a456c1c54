// SPDX-License-Identifier: Apache-2.0

// Package view shows the children of a node, and what changes.
package view

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A View shows the children of one node in one session of the client. No answer is older than an
// earlier one of the same session or of an earlier session: a server answers the opening of a session
// only when it has applied all that was committed before. A View keeps what it has read with its
// watch, which the views of a session share, and reads again only after a change. A View is used by
// one goroutine.
type View struct {
	path    string
	session *client.Session
	bell    <-chan struct{} // rung when anything that was read may have changed
	stop    func()
	waited  time.Time // when Wait last returned
}

// New returns a View of the node in the client's current session, for which it waits until ctx is done. It
// sends no request. The caller calls Close.
func New(ctx context.Context, n *node.Node) (view *View, err error) {
	err = client.Of(n).WithSession(ctx, n.Path(), func(s *client.Session) error {
		bell, stop := s.Bell(n.Path())
		view = &View{path: n.Path(), session: s, bell: bell, stop: stop}
		return nil
	})
	return view, err
}

// Close ends the use of the View.
func (v *View) Close() { v.stop() }

// Sync waits until the server has applied what the leader had committed when the call began.
func (v *View) Sync(ctx context.Context) error {
	_, err := session.Retry(ctx, v.session.Session, "sync", v.path, func(conn *zk.Conn) (string, error) {
		return conn.Sync(v.path)
	})
	if err != nil {
		return sentinel.WithCtx(ctx, err)
	}
	return nil
}

// Ended returns why the session is over, nil if it is not. After that the View shows nothing more.
func (v *View) Ended() error { return v.session.Ended() }

// Bell returns a channel that receives a value when anything that was read may have changed. Wait receives it, too.
func (v *View) Bell() <-chan struct{} { return v.bell }

// Wait waits until anything that was read may have changed. It returns at most once in T/48, so
// that a burst of changes is read in few rounds. Its error is ctx's, or the reason for the
// end of the session.
func (v *View) Wait(ctx context.Context) error {
	select {
	case <-v.bell:
	case <-v.session.Context().Done():
	case <-ctx.Done():
	}
	if left := v.session.Timeout()/48 - time.Since(v.waited); left > 0 {
		select {
		case <-time.After(left):
		case <-v.session.Context().Done():
		case <-ctx.Done():
		}
	}
	v.waited = time.Now()
	return v.over(ctx)
}

// Children are the children of a node at one moment.
type Children struct {
	Names   []string        // in no order
	Stat    *zk.Stat        // of the node; nil if it is missing
	Changed <-chan struct{} // closed when a child may have been created or deleted
}

// Children lists the children, unless it has done so and no child was created or deleted since.
func (v *View) Children(ctx context.Context) (Children, error) {
	for {
		w, err := v.session.Watch(ctx, v.path, session.WatchChildren)
		if err == nil {
			names, stat := w.Children()
			return Children{Names: slices.Clone(names), Stat: stat, Changed: w.Fired()}, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return Children{}, err
		}
		w, err = v.session.Watch(ctx, v.path, session.WatchCreation)
		if err != nil {
			return Children{}, err
		}
		// It may have been created before that watch was set.
		if _, _, err = v.session.Get(ctx, v.path); errors.Is(err, zk.ErrNoNode) {
			return Children{Changed: w.Fired()}, nil
		}
		if err != nil {
			return Children{}, err
		}
	}
}

// Read reads the children of these names, except those that have not changed since they were
// read. One that is missing is not in the result. The caller must not change the data.
func (v *View) Read(ctx context.Context, names []string) (map[string]recipes.Content, error) {
	contents := make(map[string]recipes.Content, len(names))
	var mu sync.Mutex // guards contents and failed
	var failed error
	err := session.Each(v.session.Session, names, func(name string) {
		w, err := v.session.Watch(ctx, v.path+"/"+name, session.WatchNode)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			failed = err
		default:
			data, stat, _ := w.Content()
			contents[name] = recipes.Content{Data: data, Stat: stat, Changed: w.Fired()}
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, sentinel.WithCtx(ctx, err)
	}
	return contents, nil
}

// Await waits for the Changed of something that was read. Its error is Wait's.
func (v *View) Await(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
	case <-v.session.Context().Done():
	case <-ctx.Done():
	}
	return v.over(ctx)
}

// over returns why the View or its caller ends, nil if neither does.
func (v *View) over(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return &recipes.Error{Op: "wait", Path: v.path, Err: sentinel.WithCtx(ctx, ctx.Err())}
	case v.session.Ended() != nil:
		return &recipes.Error{Op: "wait", Path: v.path, Err: v.session.Ended()}
	}
	return nil
}
