// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// maxProblem bounds what is read of an answer that may be a problem document, in bytes. Ours are shorter by far.
const maxProblem = 16 << 10

// ErrRedirected is wrapped in the error about a request with a token that was redirected to another host. The token orders
// the writes of one resource, and nothing says that the other host guards the same one: the request was not sent there.
var ErrRedirected = errors.New("redirected to another host, to which the token is not sent: " +
	"if it guards the same resource, send a request of its own there")

// A Transport sends the token of each request's context in the header [Header], and its history in [HistoryHeader]. The
// zero value is ready to use. Its methods may be called concurrently; its fields must not change after the first use.
//
// When an http.Client follows a redirect to another host, the Transport takes the token off a GET or HEAD, and refuses
// everything else with [ErrRedirected].
type Transport struct {
	_ struct{}

	// Base sends the requests. Default: http.DefaultTransport.
	Base http.RoundTripper

	// Token returns the token to send with r, or zero to send r as it is. Default: that of r's context, see WithToken.
	Token func(r *http.Request) fencing.Token

	// History returns the id of the history in which the token of r was granted, or the empty string to send none.
	// Default: that of r's context, see WithHistory.
	History func(r *http.Request) string

	// RefusalIsError makes an error of an answer that refuses the token: a *fencing.StaleError or *fencing.HistoryError,
	// wrapped, for errors.As. Other answers come as they are. Without it, that is for Refusal.
	RefusalIsError bool
}

// RoundTrip sends r with its token. A request without one goes out as it is, and a server that needs one answers 428; a
// header that the caller set stays when there is no token to replace it. A negative token is an error that wraps
// [fencing.ErrInvalid], and an id that no history can have is an error, too; nothing is sent then.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := t.prepared(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper closes the body, whatever happens
		}
		return nil, fmt.Errorf("httpfence: %s %s: %w", r.Method, r.URL.Redacted(), err)
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(sent)
	if err != nil {
		return resp, err
	}
	if resp.Request == nil {
		resp.Request = sent // for Refusal, and for the next request if this one is redirected
	}
	if !t.RefusalIsError {
		return resp, nil
	}
	if err := refusal(resp, sent.Header); err != nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("httpfence: %s %s: %w", r.Method, r.URL.Redacted(), err)
	}
	return resp, nil
}

// prepared returns r with the headers that are to be sent: r itself if it has them.
func (t *Transport) prepared(r *http.Request) (*http.Request, error) {
	token, history := Token(r.Context()), History(r.Context())
	if t.Token != nil {
		token = t.Token(r)
	}
	if t.History != nil {
		history = t.History(r)
	}
	if token < 0 {
		return nil, fmt.Errorf("token %d: %w", int64(token), fencing.ErrInvalid)
	}
	if token == 0 && len(r.Header.Values(Header)) == 0 {
		return r, nil
	}
	if redirected(r) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return nil, ErrRedirected
		}
		r = r.Clone(r.Context()) // the caller's stays as it is
		r.Header.Del(Header)
		r.Header.Del(HistoryHeader)
		return r, nil
	}
	if token == 0 {
		return r, nil
	}
	r = r.Clone(r.Context())
	r.Header.Set(Header, token.String())
	if history != "" {
		if err := fencing.CheckHistory(history); err != nil {
			return nil, err
		}
		r.Header.Set(HistoryHeader, history)
	}
	return r, nil
}

// redirected reports whether an http.Client sends r because of an answer, and to another host than the first request.
func redirected(r *http.Request) bool {
	first := r
	for first.Response != nil {
		if first.Response.Request == nil {
			return true // nothing says where it went
		}
		first = first.Response.Request
	}
	return !strings.EqualFold(first.URL.Hostname(), r.URL.Hostname()) || port(first.URL) != port(r.URL)
}

// port is empty for the default of HTTP and of HTTPS: a host may redirect the one to the other.
func port(u *url.URL) string {
	port := u.Port()
	if port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		return ""
	}
	return port
}

// Refusal returns a [*fencing.StaleError] or a [*fencing.HistoryError] if resp says so of the token that its request sent,
// and nil if it says anything else. A server can pass on the refusal of a token of its own by a server behind it: one that
// names another token or history than resp.Request says nothing about the caller's. The body of resp can be read as
// before, and is the caller's to close.
func Refusal(resp *http.Response) error {
	if resp.Request == nil {
		return nil
	}
	return refusal(resp, resp.Request.Header)
}

func refusal(resp *http.Response, sent http.Header) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusConflict || media != problemType {
		return nil
	}
	token, tokenErr := parse(sent)
	history, historyErr := parseHistory(sent)
	if tokenErr != nil || historyErr != nil {
		return nil
	}
	body := resp.Body
	head, err := io.ReadAll(io.LimitReader(body, maxProblem))
	var rest io.Reader = body
	if err != nil {
		rest = failing{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), body}
	var p problem
	if json.Unmarshal(head, &p) != nil || p.Token != token {
		return nil
	}
	switch {
	// Tokens that are not in order were refused for some other reason than being stale.
	case p.Type == StaleType && p.Newest > p.Token:
		return &fencing.StaleError{Token: p.Token, Newest: p.Newest}
	case p.Type == HistoryType && history != "" && p.History == history && p.Stored != history && fencing.CheckHistory(p.Stored) == nil:
		return &fencing.HistoryError{Token: p.Token, Given: p.History, Stored: p.Stored}
	}
	return nil
}

// A failing reader goes on failing as the body did.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
