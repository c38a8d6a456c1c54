// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// maxProblem bounds what is read of an answer that may be a problem document, in bytes. Ours are shorter by far.
const maxProblem = 16 << 10

// A Transport sends the token of each request's context in the header [Header]. The zero value is ready to use. Its
// methods may be called concurrently; its fields must not change after the first use.
type Transport struct {
	_ struct{}

	// Base sends the requests. Default: http.DefaultTransport.
	Base http.RoundTripper

	// Token returns the token to send with r, or zero to send r as it is. Default: that of r's context, see WithToken.
	Token func(r *http.Request) fencing.Token

	// StaleIsError makes an error of an answer that says that the token is stale: a *fencing.StaleError, wrapped, for
	// errors.As. Other answers come as they are. Without it, that is for Stale.
	StaleIsError bool
}

// RoundTrip sends r with its token. A request without one goes out as it is, and a server that needs one answers 428; a
// header that the caller set stays when there is no token to replace it. A negative token is an error that wraps
// [fencing.ErrInvalid], and nothing is sent.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token := Token(r.Context())
	if t.Token != nil {
		token = t.Token(r)
	}
	if token < 0 {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper closes the body, whatever happens
		}
		return nil, fmt.Errorf("httpfence: send token %d: %w", int64(token), fencing.ErrInvalid)
	}
	if token.Valid() {
		r = r.Clone(r.Context()) // the caller's stays as it is
		r.Header.Set(Header, token.String())
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(r)
	if err != nil || !t.StaleIsError {
		return resp, err
	}
	if err := Stale(resp); err != nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("httpfence: %s %s: %w", r.Method, r.URL.Redacted(), err)
	}
	return resp, nil
}

// Stale returns a [*fencing.StaleError] if resp says that the token was stale, and nil if it says anything else or says
// it without both tokens. The body of resp can be read as before, and is the caller's to close.
func Stale(resp *http.Response) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusConflict || media != problemType {
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
	// Tokens that are not in order were refused for some other reason than being stale.
	if json.Unmarshal(head, &p) != nil || p.Type != StaleType || !p.Token.Valid() || p.Newest <= p.Token {
		return nil
	}
	return &fencing.StaleError{Token: p.Token, Newest: p.Newest}
}

// A failing reader goes on failing as the body did.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
