// SPDX-License-Identifier: Apache-2.0

package redisfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Eval sends the command EVAL to Redis and returns the reply as the client decodes it: a list is a []any, and text in it a
// string or a []byte. It is all that a guard needs of a client; the package comment shows an Eval for each of the common
// clients. It may be called concurrently.
//
// After an error the script may have run. The one exception is an error with a method RedisError, which the errors of
// go-redis have, of a client that sends each script once: see SendsOnce in [Options].
type Eval func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// Errors of this package, for errors.Is, besides [fencing.ErrStale], [fencing.ErrOtherHistory] and [fencing.ErrInvalid].
var (
	// ErrUncertain: the script was sent and its reply was lost; it has run, or will run, or neither, but at most once. Read
	// before you write again, or write only what may be written twice; the same token is admitted in either case.
	ErrUncertain = errors.New("the outcome is unknown: the script has run, or will run, or neither")

	// ErrDamaged: the value of the fence's key is not a token. The guard refuses all tokens until [Guard.Reset] overwrites
	// the value: pass it the token of the lock's current holder, which is the newest grant.
	ErrDamaged = errors.New("the value of the fence's key is not a token: all tokens are refused until Reset is called")

	// ErrScript: the script that was passed to [Guard.Do] failed. What it did before the failure remains, and its token is
	// admitted.
	ErrScript = errors.New("the script failed, and what it did before the failure remains")
)

// DefaultPrefix begins the keys of fences unless [Options] name another prefix.
const DefaultPrefix = "lockkeeper:fence:"

// Options are the options of a Guard. The zero value of a field means its default.
type Options struct {
	_ struct{}

	// Prefix begins the key of each fence; the resource's name follows it. All guards of a resource must use the same
	// prefix. Default: DefaultPrefix.
	Prefix string

	// History is the id of the ensemble's history in which the tokens were granted, as Client.History of package recipes
	// returns it. The fence stores it beside each token, and refuses a token of another history with a
	// [*fencing.HistoryError]. Default: histories are neither checked nor changed.
	History string

	// SendsOnce declares that the client never sends a script a second time, as go-redis' Client with MaxRetries -1; its
	// ClusterClient resends whatever its MaxRetries. An error reply of the server, which the guard recognizes by its method
	// RedisError, then certainly means that the script has not run. Default: such an error wraps [ErrUncertain], since it can
	// be the reply to a second attempt, and does not tell the outcome of the first.
	SendsOnce bool
}

// A Guard admits scripts that write to the resources of one Redis, each of which has a key for its fence. It keeps nothing
// in memory: any number of guards, in any number of processes, act as one. All methods may be called concurrently.
type Guard struct {
	eval      Eval
	prefix    string
	history   string
	sendsOnce bool
}

// New returns a guard of the Redis that eval sends scripts to. opts may be nil. New does not contact Redis.
func New(eval Eval, opts *Options) (*Guard, error) {
	if eval == nil {
		return nil, errors.New("redisfence: new guard: eval is nil")
	}
	g := &Guard{eval: eval, prefix: DefaultPrefix}
	if opts == nil {
		return g, nil
	}
	if opts.History != "" {
		if err := fencing.CheckHistory(opts.History); err != nil {
			return nil, fmt.Errorf("redisfence: new guard: %w", err)
		}
	}
	if opts.Prefix != "" {
		g.prefix = opts.Prefix
	}
	g.history, g.sendsOnce = opts.History, opts.SendsOnce
	return g, nil
}

// keys returns the two keys of resource, for the nonces and for the fence. No resource name contains a NUL, so the
// first is not the fence of another resource.
func (g *Guard) keys(resource string) []string {
	return []string{g.prefix + resource + "\x00runs", g.prefix + resource}
}

// Do runs script with keys and args as EVAL does, as KEYS and ARGV, if token is not older than the newest one admitted for
// resource, and returns the result of the script. The check and the script are one step: Redis runs nothing between them.
//
// The script is in Lua, without a shebang line. All keys that it touches must be in keys. Pass values in args, not in the script's text: Redis caches each text
// that it has run.
//
// When a newer token has been admitted, the script does not run and the error is a [*fencing.StaleError]; when the token is
// of another history than the stored one, a [*fencing.HistoryError]. An error of the script wraps [ErrScript]; an error
// after which the script may have run wraps [ErrUncertain]. After all other errors nothing has changed.
func (g *Guard) Do(
	ctx context.Context, resource string, token fencing.Token, script string, keys []string, args ...any,
) (any, error) {
	result, err := g.do(ctx, resource, token, script, keys, args)
	if err != nil {
		return nil, fmt.Errorf("redisfence: write %.512q with token %d: %w", resource, int64(token), err)
	}
	return result, nil
}

func (g *Guard) do(
	ctx context.Context, resource string, token fencing.Token, script string, keys []string, args []any,
) (any, error) {
	if err := fencing.CheckResource(resource); err != nil {
		return nil, err
	}
	if !token.Valid() {
		return nil, fencing.ErrInvalid
	}
	switch {
	case script == "":
		return nil, errors.New("the script is empty")
	case strings.HasPrefix(script, "#!"):
		// Its flags would apply to the guard's own commands: with no-writes, the fence could not be raised.
		return nil, errors.New("the script begins with a shebang line, whose flags would apply to the guard too: remove that line")
	}
	all := append(append(make([]string, 0, len(keys)+2), keys...), g.keys(resource)...)
	with := append(append(make([]any, 0, len(args)+3), args...), rand.Text(), g.history, token.String())
	a, err := g.change(ctx, guarded(script), all, with...)
	if err != nil {
		return nil, err
	}
	switch a.word {
	case wordStale:
		newest, err := parse(a.value)
		if err != nil {
			return nil, err
		}
		return nil, &fencing.StaleError{Token: token, Newest: newest}
	case wordHistory:
		stored, _ := text(a.value)
		return nil, &fencing.HistoryError{Token: token, Given: g.history, Stored: stored}
	case wordRepeat:
		return nil, fmt.Errorf("%w: the client resent the script, and it had run; its result is lost", ErrUncertain)
	}
	return a.value, nil
}

// Newest returns the newest token admitted for resource, or zero if there is none. The result may be out of date when it
// returns: use it for reports. To decide, call Do.
func (g *Guard) Newest(ctx context.Context, resource string) (fencing.Token, error) {
	newest, err := g.newest(ctx, resource)
	if err != nil {
		return 0, fmt.Errorf("redisfence: newest token of %.512q: %w", resource, err)
	}
	return newest, nil
}

func (g *Guard) newest(ctx context.Context, resource string) (fencing.Token, error) {
	if err := fencing.CheckResource(resource); err != nil {
		return 0, err
	}
	a, _, err := g.run(ctx, get, []string{g.prefix + resource})
	if err != nil || a.value == nil {
		return 0, err
	}
	return parse(a.value)
}

// Reset makes newest the newest token of resource, whatever the value of the fence's key; zero admits any token. The history
// of resource becomes the history of the guard's [Options], or unknown if they have none.
//
// Reset is for an operator whose ensemble was restored or wiped, or whose Redis has lost the fence, and is safe under the
// condition of [fencing.Gate.Reset]: no client that was granted a token before can still write. An error with [ErrUncertain]
// means that the reset may have happened; it is then safe to repeat it.
func (g *Guard) Reset(ctx context.Context, resource string, newest fencing.Token) error {
	if err := g.reset(ctx, resource, newest); err != nil {
		return fmt.Errorf("redisfence: reset %.512q to token %d: %w", resource, int64(newest), err)
	}
	return nil
}

func (g *Guard) reset(ctx context.Context, resource string, newest fencing.Token) error {
	if err := fencing.CheckResource(resource); err != nil {
		return err
	}
	if newest < 0 {
		return fencing.ErrInvalid
	}
	// If the script is a repeat, the first run has done the reset.
	_, err := g.change(ctx, set, g.keys(resource), rand.Text(), newest.String(), g.history)
	return err
}

// change is run for a script that writes: if the script may have run, the error wraps [ErrUncertain].
func (g *Guard) change(ctx context.Context, script string, keys []string, args ...any) (answer, error) {
	a, ran, err := g.run(ctx, script, keys, args...)
	if err != nil && ran {
		err = fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return a, err
}

// run sends a script of this package and returns its reply, or the error that the reply reports. After any other error, ran
// reports whether the script may have run.
func (g *Guard) run(ctx context.Context, script string, keys []string, args ...any) (a answer, ran bool, err error) {
	if err := ctx.Err(); err != nil {
		return answer{}, false, err
	}
	reply, err := g.eval(ctx, script, keys, args...)
	if err != nil {
		var reported interface{ RedisError() }
		if g.sendsOnce && errors.As(err, &reported) {
			return answer{}, false, fmt.Errorf("nothing has run: %w", err)
		}
		return answer{}, true, err
	}
	a, err = decode(reply)
	if err != nil {
		return answer{}, true, err
	}
	switch a.word {
	case wordDone, wordStale, wordHistory, wordRepeat:
		return a, false, nil
	case wordDamage:
		err = fmt.Errorf("%w: key %.600q: %v", ErrDamaged, keys[len(keys)-1], printed(a.value))
	case wordFence:
		err = fmt.Errorf("read or raise the fence: %v", printed(a.value))
	case wordScript:
		err = fmt.Errorf("%w: %v", ErrScript, printed(a.value))
	default:
		return answer{}, true, fmt.Errorf("unknown reply %.64q", a.word)
	}
	return answer{}, false, err
}

// parse parses a token that the script has found well formed. A number of 19 digits can still be too large for a token.
func parse(value any) (fencing.Token, error) {
	digits, _ := text(value)
	if digits == "0" { // with a history, after a reset
		return 0, nil
	}
	token, err := fencing.ParseToken(digits)
	if err != nil {
		return 0, fmt.Errorf("%w: %.64q", ErrDamaged, digits)
	}
	return token, nil
}

func printed(value any) any {
	if s, ok := text(value); ok {
		return s
	}
	return value
}
