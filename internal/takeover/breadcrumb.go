// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A breadcrumb is the data of the node <path>-breadcrumb: the holder that has not released its
// claim, or none.
type breadcrumb struct {
	Token fencing.Token `json:"token,omitempty"`
	Owner string        `json:"owner,omitempty"`
	Host  string        `json:"host,omitempty"`
	PID   int           `json:"pid,omitempty"`
	Time  time.Time     `json:"time,omitzero"`
}

// noBreadcrumb is the data after a release. The node is not deleted with the release: its version
// rises for good, so that no earlier write matches a later breadcrumb.
const noBreadcrumb = `{"format":1}`

// Other data is an error: it may be the breadcrumb of a newer version.
var breadcrumbs = record.Kind[breadcrumb]{Name: "a breadcrumb", Check: func(b breadcrumb) error {
	if b.Token < 0 {
		return fmt.Errorf("token %d is negative", b.Token)
	}
	return nil
}}

func (b breadcrumb) former() recipes.FormerHolder {
	return recipes.FormerHolder{Token: b.Token, Owner: b.Owner, Host: b.Host, PID: b.PID, Since: b.Time}
}

// A leftBreadcrumb is the breadcrumb that a claim has written.
type leftBreadcrumb struct {
	path    string // namespace included
	version int32
}

// deleteWith deletes the claim's node and clears the breadcrumb, in one transaction. So no client
// finds the node gone and the breadcrumb of a holder that has released.
//
// The transaction is carried out only while the claim's own node exists: an attempt that arrives
// late changes nothing, whatever a later holder has written. If the session ends before it was
// answered, that is an error: the breadcrumb may stay. If the server refuses it, the
// breadcrumb stays, and the node is deleted without it: the next holder then treats this one as one
// that did not release. existed is as in Session.Delete.
func (l *leftBreadcrumb) deleteWith(ctx context.Context, s *session.Session, n *nodes.Node) (existed bool, err error) {
	var attempts atomic.Int32 // one that its caller has abandoned may still count
	_, err = session.RetryAs(ctx, s, session.Holder, "delete", n.Path, func(conn *zk.Conn) (struct{}, error) {
		attempts.Add(1)
		_, err := conn.Multi(
			&zk.DeleteRequest{Path: n.Path, Version: -1},
			&zk.SetDataRequest{Path: l.path, Data: []byte(noBreadcrumb), Version: l.version},
		)
		return struct{}{}, err
	})
	if err == nil {
		s.Nodes.MarkGone(n)
		return true, nil
	}
	if over := s.Ended(); over != nil { // the node ends with the session, and the breadcrumb may stay
		return false, fmt.Errorf("%w: %w", over, err)
	}
	existed, err = s.Delete(ctx, n, session.Holder)
	return existed || err == nil && attempts.Load() > 1, err
}

// A taking is an attempt of a claim to write its breadcrumb.
type taking struct {
	mine   breadcrumb
	passed fencing.Token // of the former holder after which the claim may be taken, 0 if there was none
}

// next returns the breadcrumb to write in place of the last one, nil if an earlier attempt has written it.
// Its error is an *UnreleasedError if a former holder did not release that was not passed yet.
func (t taking) next(last breadcrumb, _ bool) (*breadcrumb, error) {
	switch {
	case last.Token == t.mine.Token:
		return nil, nil
	case last.Token != 0 && last.Token != t.passed:
		return nil, &recipes.UnreleasedError{Former: last.former(), Err: errUnreleased}
	}
	return &t.mine, nil
}

var errUnreleased = errors.New("the claim was not taken over")
