// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// historyNode is the node that holds the history id, below the namespace.
const historyNode = "/lockkeeper-history"

// histories has the id that was read in a session.
var histories client.SessionSlot[atomic.Pointer[string]]

// History returns the id of the ensemble's history, below the client's namespace.
// Guards store it beside the token: a wiped ensemble grants the same tokens again,
// and an equal token of another history is then refused with
// fencing.ErrOtherHistory.
//
// The id is random. It is the data of the persistent node lockkeeper-history at the
// root of the namespace, which the first call of any client creates, with the
// client's ACL, and no call writes again. So a wipe changes the id. A restore from a
// backup brings the old one back, although tokens begin lower again: delete the node
// as a step of the restore, before clients connect.
//
// History asks a server once in each session, with two requests, and returns the id that
// it read until that session is over. Call it for each claim, after the claim was
// granted, and not once in a process. If the claim's Err is nil after History has
// returned, both are of one session, and so the token is of that history.
//
// It waits while no server can be reached, until ctx ends. A node that holds no
// history id, or is ephemeral, is an error, and stays as it is. Other errors are
// the error of ctx, ErrClosed, and the server's error if it refuses a request. Concurrent calls, of several clients
// too, return the same id.
func (c *Client) History(ctx context.Context) (id string, err error) {
	e := client.Of(c)
	path := zkpath.Full(e.Namespace(), historyNode)
	err = e.WithSession(ctx, path, func(s *client.Session) error {
		known := histories.Of(s)
		if read := known.Load(); read != nil {
			id = *read
			return nil
		}
		var err error
		if id, err = readHistory(ctx, s, path); err == nil {
			known.Store(&id)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("history: %w", err)
	}
	return id, nil
}

// readHistory reads the history id, and creates the node if it is missing.
func readHistory(ctx context.Context, s *client.Session, path string) (string, error) {
	// A server that lags may still show a node that was deleted for a restore.
	_, err := session.Retry(ctx, s.Session, "sync", path, func(conn *zk.Conn) (string, error) { return conn.Sync(path) })
	if err != nil {
		return "", err
	}
	for {
		data, stat, err := s.Get(ctx, path)
		switch {
		case err == nil:
			return checkHistoryNode(path, data, stat)
		case !errors.Is(err, zk.ErrNoNode):
			return "", err
		}
		// Whatever the outcome, the node is read again: another client may have created
		// it first, or this client by an attempt that was not answered.
		_, err = session.Retry(ctx, s.Session, "create", path, func(conn *zk.Conn) (string, error) {
			return conn.Create(path, []byte(rand.Text()), 0, s.Client().ACL())
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
		case errors.Is(err, zk.ErrNoNode) && zkpath.Parent(path) != "/":
			if err := s.CreateParents(ctx, zkpath.Parent(path), nil); err != nil {
				return "", err
			}
		default:
			return "", err
		}
	}
}

// checkHistoryNode returns the id that a node holds.
func checkHistoryNode(path string, data []byte, stat *zk.Stat) (string, error) {
	id := string(data)
	err := fencing.CheckHistory(id)
	if err == nil && stat.EphemeralOwner != 0 {
		err = errors.New("it is ephemeral and would be deleted with its session")
	}
	if err != nil {
		return "", &Error{Op: "read", Path: path, Err: fmt.Errorf("the node holds no history id (delete it to begin a new history): %w", err)}
	}
	return id, nil
}
