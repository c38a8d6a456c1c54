// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
)

// A base is a RoundTripper that answers by itself.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(r *http.Request) (*http.Response, error) { return b(r) }

// A body notes that it was closed, and ends with err.
type body struct {
	io.Reader
	err    error
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) && b.err != nil {
		err = b.err
	}
	return n, err
}

const refusal = `{"type":"` + httpfence.StaleType + `","title":"x","status":409,"token":"7","newest":"8"}`

// answer returns an answer to come from a base, and its body.
func answer(status int, media, text string) (*http.Response, *body) {
	b := &body{Reader: strings.NewReader(text)}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: b}, b
}

func request(t *testing.T, token fencing.Token) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(httpfence.WithToken(t.Context(), token), http.MethodPut, "http://u:secret@store/ledger",
		&body{Reader: strings.NewReader("x")})
	require.NoError(t, err)
	return r
}

func TestTokenOfTheContextIsSentAndTheRequestStaysAsItIs(t *testing.T) {
	var sent http.Header
	transport := &httpfence.Transport{Base: base(func(r *http.Request) (*http.Response, error) {
		sent = r.Header
		return nil, io.EOF
	})}
	r := request(t, 4294967311)
	_, err := transport.RoundTrip(r)
	require.Equal(t, io.EOF, err)
	require.Equal(t, http.Header{"Fencing-Token": {"4294967311"}}, sent)
	require.Empty(t, r.Header)

	transport.Token = func(*http.Request) fencing.Token { return 5 }
	_, err = transport.RoundTrip(r)
	require.Equal(t, io.EOF, err)
	require.Equal(t, []string{"5"}, sent.Values(httpfence.Header))
}

func TestRequestWithoutATokenGoesOutAsItIs(t *testing.T) {
	var sent *http.Request
	transport := &httpfence.Transport{Base: base(func(r *http.Request) (*http.Response, error) { sent = r; return nil, io.EOF })}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://store/ledger", nil)
	require.NoError(t, err)
	_, err = transport.RoundTrip(r)
	require.Equal(t, io.EOF, err)
	require.Same(t, r, sent)
}

func TestNegativeTokenIsNotSent(t *testing.T) {
	transport := &httpfence.Transport{Base: base(func(*http.Request) (*http.Response, error) {
		require.Fail(t, "sent")
		return nil, io.EOF
	})}
	r := request(t, -1)
	_, err := transport.RoundTrip(r)
	require.ErrorIs(t, err, fencing.ErrInvalid)
	require.True(t, r.Body.(*body).closed)

	r.Body = nil
	_, err = transport.RoundTrip(r)
	require.ErrorIs(t, err, fencing.ErrInvalid)
}

func TestRefusalBecomesAStaleErrorWhereAskedFor(t *testing.T) {
	resp, b := answer(http.StatusConflict, "application/problem+json; charset=utf-8", refusal)
	transport := &httpfence.Transport{Base: base(func(*http.Request) (*http.Response, error) { return resp, nil })}
	got, err := transport.RoundTrip(request(t, 7))
	require.NoError(t, err, "not asked for")
	require.Same(t, resp, got)

	transport.StaleIsError = true
	_, err = transport.RoundTrip(request(t, 7))
	var stale *fencing.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fencing.StaleError{Token: 7, Newest: 8}, *stale)
	require.NotContains(t, err.Error(), "secret")
	require.True(t, b.closed)
}

func TestAnswersThatDoNotSayStaleComeAsTheyAre(t *testing.T) {
	const problem = "application/problem+json"
	for _, a := range []struct {
		status      int
		media, text string
	}{
		{http.StatusOK, problem, refusal},
		{http.StatusConflict, "application/json", refusal},
		{http.StatusConflict, "", refusal},
		{http.StatusConflict, problem, ""},
		{http.StatusConflict, problem, refusal[:20]},
		{http.StatusConflict, problem, strings.Replace(refusal, httpfence.StaleType, "about:blank", 1)},
		{http.StatusConflict, problem, strings.Replace(refusal, `"8"`, `"7"`, 1)},
		{http.StatusConflict, problem, strings.Replace(refusal, `"8"`, `"x"`, 1)},
		{http.StatusConflict, problem, strings.Replace(refusal, `"7"`, `"0"`, 1)},
		{http.StatusConflict, problem, strings.Replace(refusal, `"token":"7",`, ``, 1)},
		{http.StatusConflict, problem, strings.Repeat(" ", 20<<10) + refusal}, // longer than any of ours
	} {
		resp, b := answer(a.status, a.media, a.text)
		transport := &httpfence.Transport{
			Base:         base(func(*http.Request) (*http.Response, error) { return resp, nil }),
			StaleIsError: true,
		}
		got, err := transport.RoundTrip(request(t, 7))
		require.NoError(t, err, a)
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.Equal(t, a.text, string(text))
		require.False(t, b.closed)
		require.NoError(t, got.Body.Close())
		require.True(t, b.closed)
	}
}

func TestAnswerThatBreaksOffIsNotStaleAndStaysBroken(t *testing.T) {
	resp, b := answer(http.StatusConflict, "application/problem+json", refusal[:20])
	b.err = io.ErrUnexpectedEOF
	require.NoError(t, httpfence.Stale(resp))
	text, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, refusal[:20], string(text))
}

func TestClientAndServerAgree(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Admit(8))
	server := httptest.NewServer(httpfence.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpfence.Refuse(w, gate.Admit(httpfence.Token(r.Context())))
	})))
	defer server.Close()
	client := &http.Client{Transport: &httpfence.Transport{StaleIsError: true}}
	for token, fine := range map[fencing.Token]bool{7: false, 8: true} {
		r, err := http.NewRequestWithContext(httpfence.WithToken(t.Context(), token), http.MethodPut, server.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(r)
		if !fine {
			var stale *fencing.StaleError
			require.ErrorAs(t, err, &stale)
			require.Equal(t, fencing.StaleError{Token: 7, Newest: 8}, *stale)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
}
