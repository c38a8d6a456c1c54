// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

// Call runs one ordinary request of the session, and returns no later than ctx ends. A
// request that its caller abandons continues: the session waits for it and discards its
// outcome.
//
// Call sends the request only while the session is attached: in the ZooKeeper client's queue
// it could outlive its caller by the whole outage. It sends a request again, with back-off, that an overloaded server refused.
func Call[R any](ctx context.Context, of Sender, request func(*zk.Conn) (R, error)) (R, error) {
	return CallAs(ctx, of, Ordinary, request)
}

// CallAs is Call for a caller of that role.
func CallAs[R any](ctx context.Context, of Sender, as Role, request func(*zk.Conn) (R, error)) (R, error) {
	s := of.self()
	for pause := (backOff{}); ; {
		value, err := callOnce(ctx, s, as, request)
		if !s.mayResend(err) {
			return value, err
		}
		if err := pause.wait(ctx, s, err); err != nil {
			return value, unsentErr{err}
		}
	}
}

func callOnce[R any](ctx context.Context, s *sender, as Role, request func(*zk.Conn) (R, error)) (R, error) {
	mine, err := s.TakeTurn(ctx, as)
	if err != nil {
		var zero R
		return zero, unsentErr{err}
	}
	return apart(ctx, s, mine.End, func() (R, error) {
		value, err := request(s.conn)
		s.endIfExpired(err)
		return value, err
	})
}

// apart runs one request on a goroutine of the session, and returns no later than ctx ends. It calls end once the request has been
// answered, or if it is not sent.
func apart[R any](ctx context.Context, s *sender, end func(), request func() (R, error)) (R, error) {
	return beginApart(ctx, s, end, request)()
}

// beginApart is apart for a caller that does something else before it waits for the answer.
func beginApart[R any](ctx context.Context, s *sender, end func(), request func() (R, error)) (await func() (R, error)) {
	type reply struct {
		value R
		err   error
	}
	replies := make(chan reply, 1) // with room for a reply whose caller has returned
	err := s.spawn(func() {
		value, err := request()
		end()
		replies <- reply{value, err}
	})
	if err != nil {
		end()
		replies <- reply{err: unsentErr{err}}
	}
	return func() (R, error) {
		select {
		case r := <-replies:
			return r.value, r.err
		case <-ctx.Done():
			var zero R
			return zero, fmt.Errorf("%w: %w", sentinel.ErrUncertain, ctx.Err())
		}
	}
}

// CallAndWait runs one ordinary request of the session on the caller's goroutine, and waits
// for its answer even if ctx ends in the meantime. It serves requests whose outcome the caller
// must know before it returns, and that are too many for a goroutine each. (Two more wake-ups
// were a tenth of a lock cycle.)
//
// It waits for its turn and for a server no longer than ctx. Once the request is sent, the
// session ends the connection if no answer comes. A request that is still in the ZooKeeper
// client's queue when the connection ends fails T/8 later: see [dialer.failQueued].
func CallAndWait[R any](ctx context.Context, of Sender, as Role, request func(*zk.Conn) (R, error)) (R, error) {
	s := of.self()
	for pause := (backOff{}); ; {
		var zero R
		mine, err := s.TakeTurn(ctx, as)
		if err != nil {
			return zero, unsentErr{err}
		}
		if err := s.begin(); err != nil {
			mine.End()
			return zero, unsentErr{err}
		}
		value, err := request(s.conn)
		s.finish()
		mine.End()
		s.endIfExpired(err)
		if !s.mayResend(err) {
			return value, err
		}
		if err := pause.wait(ctx, s, err); err != nil {
			return zero, unsentErr{err}
		}
	}
}

// Retry repeats an idempotent request until a server has answered it.
func Retry[R any](ctx context.Context, of Sender, op, path string, request func(*zk.Conn) (R, error)) (R, error) {
	return RetryAs(ctx, of, Ordinary, op, path, request)
}

// maxOdd is how often an idempotent request is sent again after an answer for which the ZooKeeper client has no name.
const maxOdd = 3

// RetryAs is Retry for a caller of that role.
func RetryAs[R any](ctx context.Context, of Sender, as Role, op, path string, request func(*zk.Conn) (R, error)) (R, error) {
	return repeat(ctx, of.self(), op, path, func() (R, error) { return CallAs(ctx, of, as, request) })
}

// repeat is Retry for a function that sends the request.
func repeat[R any](ctx context.Context, s *sender, op, path string, send func() (R, error)) (R, error) {
	for odd := 0; ; {
		r, err := send()
		if err == nil {
			return r, nil
		}
		repeat := s.mayRepeat(err)
		// ZooKeeper 3.8.0 answers a transaction with MarshallingError if the session is closed at that moment (a null pointer in
		// its FinalRequestProcessor). The next answer, or the end of the connection, then reports that.
		if unnamed(err) && odd < maxOdd && s.Ended() == nil {
			odd++
			repeat = true
		}
		if ctx.Err() == nil && repeat {
			continue
		}
		if over := s.Ended(); over != nil && Retryable(err) {
			err = fmt.Errorf("%w: %w", over, err)
		}
		var zero R
		if ctx != s.ctx && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return zero, s.Fail(op, path, err)
	}
}

// callWithoutTurn runs one request that a deadline depends on, without taking a turn. The caller
// runs on a goroutine of the session, and sends few of them. It sends a request again that an overloaded server refused, for T/9 at
// most: the caller has its own schedule.
func callWithoutTurn[R any](of Sender, request func(*zk.Conn) (R, error)) (R, error) {
	s := of.self()
	for pause := (backOff{}); ; {
		value, err := request(s.conn)
		s.endIfExpired(err)
		if !isThrottled(err) || pause.refused == 3 || pause.wait(s.ctx, s, err) != nil {
			return value, err
		}
	}
}

// Children lists the children of a node.
func (s *sender) Children(ctx context.Context, path string) (children []string, stat *zk.Stat, err error) {
	c, err := Retry(ctx, s, "list", path, listing(path))
	return c.children, c.stat, err
}

// listing returns the request that lists the children of a node.
func listing(path string) func(*zk.Conn) (content, error) {
	return func(conn *zk.Conn) (content, error) {
		children, stat, err := conn.Children(path)
		return content{children: children, stat: stat}, err
	}
}

// A content is the result of a read of a node, or of a listing of its children.
type content struct {
	data     []byte
	children []string
	stat     *zk.Stat
}

// Get reads a node.
func (s *sender) Get(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	c, err := Retry(ctx, s, "read", path, getting(path))
	return c.data, c.stat, err
}

// BeginGet is Get for a caller that sends another request before it waits for the answer.
func (s *sender) BeginGet(ctx context.Context, path string) (await func() (data []byte, stat *zk.Stat, err error)) {
	begun := beginApart(ctx, s, func() {}, func() (content, error) {
		return repeat(ctx, s, "read", path, func() (content, error) { return CallAndWait(ctx, s, Ordinary, getting(path)) })
	})
	return func() (data []byte, stat *zk.Stat, err error) {
		c, err := begun()
		if err != nil && ctx.Err() != nil {
			err = s.Fail("read", path, ctx.Err())
		}
		return c.data, c.stat, err
	}
}

// getting returns the request that reads a node.
func getting(path string) func(*zk.Conn) (content, error) {
	return func(conn *zk.Conn) (content, error) {
		data, stat, err := conn.Get(path)
		return content{data: data, stat: stat}, err
	}
}

// Exists reports whether a node exists. It sets no watch.
func (s *sender) Exists(ctx context.Context, path string) (bool, error) {
	return Retry(ctx, s, "read", path, func(conn *zk.Conn) (bool, error) {
		exists, _, err := conn.Exists(path)
		return exists, err
	})
}

// CreateParents creates the node at path, and those above it, as containers, which the server
// removes some time after their last child. If Containers.Never is set, or the server does not
// support containers, the nodes are persistent: such a server refuses the request, or closes the connection (see [Containers]).
func (s *sender) CreateParents(ctx context.Context, path string, data []byte) error {
	for {
		err := s.createParent(ctx, path, data)
		if !errors.Is(err, zk.ErrNoNode) || above(path) == "/" {
			return err
		}
		// The server can remove the node above again before the next attempt, if it was empty and old enough.
		if err := s.CreateParents(ctx, above(path), nil); err != nil {
			return err
		}
	}
}

// above returns the path of the node above path, "/" at the top.
func above(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

func (s *sender) createParent(ctx context.Context, path string, data []byte) error {
	err := s.createNode(ctx, path, data)
	// A server without containers answers with a code that the ZooKeeper client does not know.
	if OutcomeOf(err) == Unknown && !Retryable(err) && ctx.Err() == nil {
		_, err = Retry(ctx, s, "create", path, func(conn *zk.Conn) (string, error) {
			return conn.Create(path, data, 0, s.config.ACL)
		})
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// createNode creates a parent: a container, or a persistent node if no server has answered requests for containers.
func (s *sender) createNode(ctx context.Context, path string, data []byte) error {
	containers := s.config.Containers
	_, err := Retry(ctx, s, "create", path, func(conn *zk.Conn) (string, error) {
		if containers.Missing() {
			return conn.Create(path, data, 0, s.config.ACL)
		}
		w := s.link.state().wire
		created, err := conn.CreateContainer(path, data, zk.FlagContainer, s.config.ACL)
		containers.record(w, err)
		return created, err
	})
	return err
}

// Each calls f for each item, on up to MaxInFlight goroutines of the session, and waits for
// them.
func Each[T any](of Sender, items []T, f func(T)) error {
	s := of.self()
	next := make(chan T)
	stop := make(chan struct{})
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(stop)
	work := func() {
		defer workers.Done()
		for {
			select {
			case item := <-next:
				f(item)
			case <-stop:
				return
			}
		}
	}
	started := 0
	for _, item := range items {
		if started < MaxInFlight {
			workers.Add(1)
			if err := s.spawn(work); err != nil {
				workers.Done()
				return err
			}
			started++
		}
		select {
		case next <- item:
		case <-s.ctx.Done():
			return s.Ended()
		}
	}
	return nil
}
