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

// maxProblem bounds, in bytes, how much is read of a response that may be a problem document. The documents of this package
// are much shorter.
const maxProblem = 16 << 10

// ErrRedirected is wrapped in the error of a request with a token that was redirected to another host. The token orders the
// writes of one resource, and the other host may guard another resource: the request was not sent there.
var ErrRedirected = errors.New("redirected to another host, to which the token is not sent: " +
	"if that host guards the same resource, send it a separate request")

// A Transport sends the token of each request's context in the header [Header], and the id of its history in
// [HistoryHeader]. The zero value is ready to use. Its methods may be called concurrently; its fields must not change after
// the first use.
//
// When an http.Client follows a redirect to another host, the Transport removes the token from a GET or HEAD request, and
// refuses any other request with [ErrRedirected].
type Transport struct {
	_ struct{}

	// Base sends the requests. Default: http.DefaultTransport.
	Base http.RoundTripper

	// Token returns the token to send with r, or zero to send r unchanged. Default: the token of r's context, see fencing.WithToken.
	Token func(r *http.Request) fencing.Token

	// History returns the id of the history in which the token of r was granted, or the empty string to send none. Default:
	// the id of r's context, see fencing.WithHistory, which belongs to the token of the context: none if Token is set.
	History func(r *http.Request) string

	// RefusalIsError makes RoundTrip return an error, in place of the response, if the server refused the token: a
	// *fencing.StaleError or *fencing.HistoryError, wrapped, for errors.As. It returns other responses unchanged. Without
	// the option, the caller passes each response to Refusal.
	RefusalIsError bool
}

// RoundTrip sends r with its token. It sends a request without a token unchanged, and a server that requires one answers
// 428; if there is no token to replace it, a header that the caller set remains. A negative token is an error that wraps
// [fencing.ErrInvalid], and an invalid history id is an error, too; nothing is sent in these cases. A token replaces both
// headers of the caller: the one of the history is removed if there is no history to send.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := t.prepared(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper always closes the body
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

// prepared returns r with the headers to send: r itself if no header changes.
func (t *Transport) prepared(r *http.Request) (*http.Request, error) {
	token, history := fencing.TokenFromContext(r.Context()), fencing.HistoryFromContext(r.Context())
	if t.Token != nil {
		// The history of the context is the history of the context's token: with another one, it could admit a token that
		// the server should refuse, or become the history of a resource that has none.
		token, history = t.Token(r), ""
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
		r = r.Clone(r.Context()) // the caller's request must not change
		r.Header.Del(Header)
		r.Header.Del(HistoryHeader)
		return r, nil
	}
	if token == 0 {
		return r, nil
	}
	r = r.Clone(r.Context())
	r.Header.Set(Header, token.String())
	r.Header.Del(HistoryHeader) // of the token that the caller set, if any
	if history != "" {
		if err := fencing.CheckHistory(history); err != nil {
			return nil, err
		}
		r.Header.Set(HistoryHeader, history)
	}
	return r, nil
}

// redirected reports whether an http.Client sends r because of a redirect, and to another host than the first
// request.
func redirected(r *http.Request) bool {
	first := r
	for first.Response != nil {
		if first.Response.Request == nil {
			return true // the host of the first request is unknown
		}
		first = first.Response.Request
	}
	return !strings.EqualFold(first.URL.Hostname(), r.URL.Hostname()) || port(first.URL) != port(r.URL)
}

// port returns the port of u, or "" for the default port of HTTP or HTTPS: a host may redirect from one scheme to the other.
func port(u *url.URL) string {
	port := u.Port()
	if port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		return ""
	}
	return port
}

// Refusal returns a [*fencing.StaleError] or a [*fencing.HistoryError] if resp refuses the token that its request sent, and
// otherwise nil. A server may relay the refusal of its own token by a server behind it: a refusal that names another token
// or history than resp.Request does not concern the caller's token. The body of resp can be read as before, and the caller
// closes it.
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
	// If the tokens are not in this order, the refused one is not stale.
	case p.Type == StaleType && p.Newest > p.Token:
		return &fencing.StaleError{Token: p.Token, Newest: p.Newest}
	case p.Type == HistoryType && history != "" && p.History == history && p.Stored != history && fencing.CheckHistory(p.Stored) == nil:
		return &fencing.HistoryError{Token: p.Token, Given: p.History, Stored: p.Stored}
	}
	return nil
}

// A failing reader returns the error at which the body ended.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
