// SPDX-License-Identifier: Apache-2.0

package permits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// NewNumbered returns permits of which each has a number, from 0 to the limit - 1, that no other one has at the same time. Each
// claim is of one permit, and its Number is the permit's. The limit is 1 to MaxNumbers: see New.
//
// The number is a second node, <path>-limit/<number>. The transaction that marks the contender's node creates it, and one
// transaction deletes both. If an operator deletes the contender's node, its number stays in use until the work has had time to stop: a
// permit that fits may have to wait for a number.
//
// The token of a claim is the zxid of its grant, which rises with each grant of the number. The czxid of the contender's node
// does not: a contender that has joined later can be granted the number earlier.
func NewNumbered(q *queue.Queue, limit int) (*Permits, error) {
	return newPermits(q, limit, true)
}

// Number returns the number of a claim of numbered permits.
func Number(c *recipes.Claim) int { return claim.Of(c).Number() }

// numberPath returns the path of a number's node.
func (p *Permits) numberPath(number int) string { return p.limitPath + "/" + strconv.Itoa(number) }

// parseNumber returns the number whose node has that name. ok is false for a name that is not of this library.
func parseNumber(name string) (number int, ok bool) {
	number, err := strconv.Atoi(name)
	return number, err == nil && number >= 0 && strconv.Itoa(number) == name
}

// awaitNumber chooses the number of a place whose permit fits. It waits until one is free. found is false if the limit may have
// changed: then the permit may not fit any more.
func (p *Permits) awaitNumber(ctx context.Context, s *client.Session, pl *queue.Place) (found bool, err error) {
	for {
		found, err := p.chooseNumber(ctx, s, pl)
		if err != nil || found {
			return found, err
		}
		numbers, err := s.Watch(ctx, p.limitPath, session.WatchChildren)
		if err != nil {
			return false, err
		}
		own, err := s.WatchOwn(ctx, pl.Node)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			err = s.Prove(ctx, pl.Node) // deleted, or not visible on this server yet
		case err == nil:
			if names, _ := numbers.Children(); pickNumber(pl, names) {
				return true, nil
			}
			err = (&room{Permits: p, session: s, place: pl}).wait(ctx, own, numbers.Fired(), nil)
		}
		if err != nil {
			return false, err
		}
		select {
		case <-pl.Limit.Changed:
			return false, nil
		default:
		}
	}
}

// chooseNumber chooses a number that is free in the view of the server. found is false if none is.
func (p *Permits) chooseNumber(ctx context.Context, s *client.Session, pl *queue.Place) (found bool, err error) {
	names, _, err := s.Children(ctx, p.limitPath)
	return err == nil && pickNumber(pl, names), err
}

// pickNumber chooses a number that is not among the names, if there is one.
//
// Contenders ahead that have no number yet choose at the same time. So the place leaves them the smallest free numbers: otherwise
// n contenders that are granted together would send about n²/2 transactions.
func pickNumber(pl *queue.Place, names []string) (found bool) {
	used := make([]bool, pl.Limit.Permits)
	free := len(used)
	for _, name := range names {
		if number, ok := parseNumber(name); ok && number < len(used) {
			used[number] = true
			free--
		}
	}
	skip := min(max(pl.Ahead-(len(used)-free), 0), free-1)
	for number, isUsed := range used {
		switch {
		case isUsed:
		case skip == 0:
			pl.Number = number
			return true
		default:
			skip--
		}
	}
	return false
}

// errNumberInUse reports that another contender was granted the number first.
var errNumberInUse = errors.New("number is in use")

// markNumbered is mark with a number that choose returns. fits is false if that finds none.
func (p *Permits) markNumbered(
	ctx context.Context, s *client.Session, pl *queue.Place, choose func(context.Context, *client.Session, *queue.Place) (bool, error),
) (fits bool, err error) {
	for {
		if found, err := choose(ctx, s, pl); err != nil || !found {
			return false, err
		}
		if fits, err := p.mark(ctx, s, pl); !errors.Is(err, errNumberInUse) {
			return fits, err
		}
	}
}

// mostRemoved is how many numbers one transaction of lower removes.
func (p *Permits) mostRemoved() int {
	const rest = 128 // more than an operation has around the limit's path
	size := 2 * (len(p.limitPath) + rest)
	for _, acl := range p.queue.Client.ACL() {
		size += len(acl.Scheme) + len(acl.ID) + 12
	}
	return max(1, zkpath.MaxTransaction/2/size)
}

// removeNumbers appends, for each number from to to below, what the server refuses if the number is in use, and otherwise changes nothing.
func (p *Permits) removeNumbers(ops []any, to, below int) []any {
	for number := to; number < below; number++ {
		path := p.numberPath(number)
		ops = append(ops, &zk.CreateRequest{Path: path, Acl: p.queue.Client.ACL()}, &zk.DeleteRequest{Path: path, Version: 0})
	}
	return ops
}

// firstRefused returns the index of the operation that the server refused.
func firstRefused(results []zk.MultiResponse) int {
	return max(1, slices.IndexFunc(results, func(r zk.MultiResponse) bool { return errors.Is(r.Error, zk.ErrNodeExists) }))
}

// ErrNumberInUse is returned by a Resize that would remove a number which is in use.
var ErrNumberInUse = errors.New("slot is in use")

// removedInUse returns the error of a Resize to that limit if one of the numbers that it removes is in use.
func (p *Permits) removedInUse(ctx context.Context, from queue.Limit, limit int) error {
	used := from.Permits
	err := p.queue.WithSession(ctx, func(s *client.Session) error {
		stored, err := p.isStored(ctx, s, from.Version) // what is read next is not older
		if err != nil {
			return err
		}
		if !stored {
			return errLimitMoved
		}
		names, _, err := s.Children(ctx, p.limitPath)
		for _, name := range names {
			if number, ok := parseNumber(name); ok && number >= limit {
				used = min(used, number)
			}
		}
		return ignoreNoNode(err)
	})
	if err != nil || used == from.Permits {
		return err
	}
	return p.numberInUse(ctx, used, zk.ErrNodeExists)
}

// numberInUse returns the error of a Resize that would remove the number. It names the number's holder, if that still has it.
func (p *Permits) numberInUse(ctx context.Context, number int, refused error) error {
	busy := &recipes.BusyError{Path: p.queue.Path()}
	err := p.queue.WithSession(ctx, func(s *client.Session) error {
		data, stat, err := s.Get(ctx, p.numberPath(number))
		if err == nil {
			busy.Front = occupant(strconv.Itoa(number), data, stat)
		}
		return ignoreNoNode(err)
	})
	if err != nil {
		return errors.Join(refused, err)
	}
	return fmt.Errorf("number %d: %w: %w", number, ErrNumberInUse, busy)
}

// An Occupant is a number that is in use.
type Occupant struct {
	Number int
	Holder recipes.Contender // Name is of the number's node, and Token the token
}

// Occupants returns the numbers that are in use, in their order, as the server that this client is connected to sees them.
func (p *Permits) Occupants(ctx context.Context) (occupants []Occupant, err error) {
	err = p.queue.WithSession(ctx, func(s *client.Session) error {
		names, _, err := s.Children(ctx, p.limitPath)
		if err != nil {
			return ignoreNoNode(err)
		}
		occupants, err = p.readOccupants(ctx, s, names)
		return err
	})
	return occupants, err
}

// occupant returns the holder of a number, whose node has the data of the contender's.
func occupant(name string, data []byte, stat *zk.Stat) recipes.Contender {
	c := queue.ContenderOf(name, data, stat)
	c.Held, c.Permits = true, 1
	return c
}

func (p *Permits) readOccupants(ctx context.Context, s *client.Session, names []string) ([]Occupant, error) {
	var mu sync.Mutex // guards what follows
	var occupants []Occupant
	var failed error
	err := session.Each(s.Session, names, func(name string) {
		number, ok := parseNumber(name)
		if !ok {
			return
		}
		data, stat, err := s.GetAtMost(ctx, p.limitPath+"/"+name)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			failed = err
		default:
			occupants = append(occupants, Occupant{number, occupant(name, data, stat)})
		}
	})
	slices.SortFunc(occupants, func(a, b Occupant) int { return a.Number - b.Number })
	return occupants, errors.Join(err, failed)
}
