// SPDX-License-Identifier: Apache-2.0

package redisfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Eval sends the command EVAL to Redis and returns its answer as the client has it: a list is a []any, a text in it a
// string or a []byte. It is all that a guard needs of a client; the package's documentation shows one for each of the
// usual. It may be called concurrently.
//
// An error with a method RedisError, which those of go-redis have, is taken for an answer of the server, which then has
// not run the script, unless [Options] say that the client sends again. After any other the script may have run.
type Eval func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// What errors.Is finds in an error of this package, besides [fencing.ErrStale] and [fencing.ErrInvalid].
var (
	// ErrUncertain: the script was sent and its answer is not known; it has run, or will, or not, but no more than once.
	// Read before you write again, or write what may be written twice; the same token is admitted in either case.
	ErrUncertain = errors.New("the outcome is unknown: the script has run, or will, or not")

	// ErrDamaged: the fence's key holds something else than a token. All tokens are refused until [Guard.Reset] overwrites
	// that: with the token of the lock's current holder, the newest grant of all.
	ErrDamaged = errors.New("the fence's key holds no token: all tokens are refused until Reset is called")

	// ErrScript: the script that was handed to [Guard.Do] failed. What it did before that stays, and its token is
	// admitted.
	ErrScript = errors.New("the script failed, and what it did before that stays")
)

// DefaultPrefix begins the keys of fences where [Options] say nothing else.
const DefaultPrefix = "lockkeeper:fence:"

// Options for [New]; zero fields mean the default.
type Options struct {
	_ struct{}

	// Prefix begins the key of each fence; the resource's name follows. All guards of a resource use the same.
	// Default: DefaultPrefix.
	Prefix string

	// History is the id of the ensemble's history in which the tokens were granted, as Client.History of package recipes
	// returns it. The fence stores it beside each token, and refuses a token of another history with a
	// [*fencing.HistoryError]. Default: histories are neither checked nor changed.
	History string

	// SendsAgain declares that the client may send a script again after its answer was lost, as go-redis' ClusterClient
	// does whatever its MaxRetries. The fence recognises the repeat in any case. But an error of the server can then be the
	// answer to the second attempt, and says nothing about the first: with SendsAgain it wraps [ErrUncertain].
	SendsAgain bool
}

// A Guard admits scripts that write to the resources of one Redis, each of which has a key for its fence. It keeps
// nothing in memory: any number of guards, in any number of processes, are one. All methods may be called concurrently.
type Guard struct {
	eval       Eval
	prefix     string
	history    string
	sendsAgain bool
}

// New returns the guard of what eval reaches. opts may be nil. It does not speak to Redis.
func New(eval Eval, opts *Options) (*Guard, error) {
	if eval == nil {
		return nil, errors.New("redisfence: new guard: the function is nil")
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
	g.history, g.sendsAgain = opts.History, opts.SendsAgain
	return g, nil
}

// keys returns the two keys of resource: that of the nonces, and the fence. No name of a resource has a NUL, so the first
// is no other resource's fence.
func (g *Guard) keys(resource string) []string {
	return []string{g.prefix + resource + "\x00runs", g.prefix + resource}
}

// Do runs script with keys and args as EVAL does, as KEYS and ARGV, if token is not older than the newest one admitted
// for resource, and returns what the script returns. The check and the script are one: Redis runs nothing in between.
//
// All keys that the script touches stand in keys; values go into args, not into the script's text, of which Redis keeps
// each one that it has seen.
//
// When a newer token has been admitted, the script does not run and the error is a [*fencing.StaleError]; when the token
// is of another history than the stored one, a [*fencing.HistoryError]. An error of the script wraps [ErrScript]; one after
// which it may have run, [ErrUncertain]. After all others nothing has changed.
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
	if script == "" {
		return nil, errors.New("the script is empty")
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
		return nil, fmt.Errorf("%w: the client sent it again, and it had run; its result is lost", ErrUncertain)
	}
	return a.value, nil
}

// Newest returns the newest token admitted for resource, or zero if there is none. It is out of date when it returns: it
// is for reports. To decide, call Do.
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
	a, _, err := g.ask(ctx, ask, []string{g.prefix + resource})
	if err != nil || a.value == nil {
		return 0, err
	}
	return parse(a.value)
}

// Reset makes newest the newest token of resource, whatever the fence's key holds; zero admits any. The history of resource
// becomes that of the guard's [Options], or unknown if they have none.
//
// It is for an operator whose ensemble was restored or wiped, or whose Redis has forgotten what it should know, and safe
// under the condition that [fencing.Gate.Reset] names: no client that was granted a token before can still write. An error
// with [ErrUncertain] means that it may have happened; to do it again does no harm then.
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
	// A repeat has run, which is all that there is to say.
	_, err := g.change(ctx, set, g.keys(resource), rand.Text(), newest.String(), g.history)
	return err
}

// change is ask for a script that writes.
func (g *Guard) change(ctx context.Context, script string, keys []string, args ...any) (answer, error) {
	a, ran, err := g.ask(ctx, script, keys, args...)
	if err != nil && ran {
		err = fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return a, err
}

// ask sends a script of this package and returns what it says, or what it says is wrong. With an error that is not what
// it says, it may have run.
func (g *Guard) ask(ctx context.Context, script string, keys []string, args ...any) (a answer, ran bool, err error) {
	if err := ctx.Err(); err != nil {
		return answer{}, false, err
	}
	reply, err := g.eval(ctx, script, keys, args...)
	if err != nil {
		var said interface{ RedisError() }
		if errors.As(err, &said) && !g.sendsAgain {
			return answer{}, false, fmt.Errorf("nothing has run: %w", err)
		}
		return answer{}, true, err
	}
	a, err = understood(reply)
	if err != nil {
		return answer{}, true, err
	}
	switch a.word {
	case wordDone, wordStale, wordHistory, wordRepeat:
		return a, false, nil
	case wordDamage:
		err = fmt.Errorf("%w: key %.600q: %v", ErrDamaged, keys[len(keys)-1], printed(a.value))
	case wordFence:
		err = fmt.Errorf("ask the fence: %v", printed(a.value))
	case wordScript:
		err = fmt.Errorf("%w: %v", ErrScript, printed(a.value))
	default:
		return answer{}, true, fmt.Errorf("the answer begins with %.64q", a.word)
	}
	return answer{}, false, err
}

// parse reads a token that the script has found well formed. A number of 19 digits can be too large for one all the same.
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
