// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
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

// A base is a RoundTripper that answers by calling a function.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(r *http.Request) (*http.Response, error) { return b(r) }

// A body records that it was closed, and ends with err.
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

const (
	refusal      = `{"type":"` + httpfence.StaleType + `","title":"x","status":409,"token":"7","newest":"8"}`
	otherHistory = `{"type":"` + httpfence.HistoryType + `","title":"x","status":409,"token":"7","history":"second","stored":"first"}`
)

// answer returns a response for a base to return, and its body.
func answer(status int, media, text string) (*http.Response, *body) {
	b := &body{Reader: strings.NewReader(text)}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: b}, b
}

func request(t *testing.T, token fencing.Token) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(fencing.WithToken(t.Context(), token), http.MethodPut, "http://u:secret@store/ledger",
		&body{Reader: strings.NewReader("x")})
	require.NoError(t, err)
	return r
}

func TestTokenOfContextIsSentAndRequestIsUnchanged(t *testing.T) {
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

func TestRequestWithoutTokenIsSentUnchanged(t *testing.T) {
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

func TestRefusalIsErrorMakesRefusalStaleError(t *testing.T) {
	resp, b := answer(http.StatusConflict, "application/problem+json; charset=utf-8", refusal)
	transport := &httpfence.Transport{Base: base(func(*http.Request) (*http.Response, error) { return resp, nil })}
	got, err := transport.RoundTrip(request(t, 7))
	require.NoError(t, err, "RefusalIsError is not set")
	require.Same(t, resp, got)

	transport.RefusalIsError = true
	_, err = transport.RoundTrip(request(t, 7))
	var stale *fencing.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fencing.StaleError{Token: 7, Newest: 8}, *stale)
	require.NotContains(t, err.Error(), "secret")
	require.True(t, b.closed)
}

func TestOtherResponsesAreReturnedUnchanged(t *testing.T) {
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
		{http.StatusConflict, problem, strings.Repeat(" ", 20<<10) + refusal},     // longer than maxProblem
		{http.StatusConflict, problem, strings.Replace(refusal, `"7"`, `"6"`, 1)}, // relayed: about another token
		{http.StatusConflict, problem, strings.Replace(otherHistory, `"7"`, `"6"`, 1)},
		{http.StatusConflict, problem, strings.Replace(otherHistory, `"second"`, `"third"`, 1)},
		{http.StatusConflict, problem, strings.Replace(otherHistory, `"first"`, `"second"`, 1)},
		{http.StatusConflict, problem, strings.Replace(otherHistory, `"first"`, `""`, 1)},
		{http.StatusConflict, problem, strings.Replace(otherHistory, `"history":"second",`, ``, 1)},
	} {
		resp, b := answer(a.status, a.media, a.text)
		transport := &httpfence.Transport{
			Base:           base(func(*http.Request) (*http.Response, error) { return resp, nil }),
			RefusalIsError: true,
		}
		r := request(t, 7)
		got, err := transport.RoundTrip(r.WithContext(fencing.WithHistory(r.Context(), "second")))
		require.NoError(t, err, a)
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.Equal(t, a.text, string(text))
		require.False(t, b.closed)
		require.NoError(t, got.Body.Close())
		require.True(t, b.closed)
	}
}

func TestTruncatedResponseIsNotStaleAndStaysTruncated(t *testing.T) {
	resp, b := answer(http.StatusConflict, "application/problem+json", refusal[:20])
	b.err = io.ErrUnexpectedEOF
	resp.Request = request(t, 7)
	resp.Request.Header.Set(httpfence.Header, "7")
	require.NoError(t, httpfence.Refusal(resp))
	text, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, refusal[:20], string(text))
}

func TestClientAndServerAgree(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Admit(8))
	server := httptest.NewServer(httpfence.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpfence.Refuse(w, gate.Admit(fencing.TokenFromContext(r.Context())))
	})))
	defer server.Close()
	client := &http.Client{Transport: &httpfence.Transport{RefusalIsError: true}}
	for token, fine := range map[fencing.Token]bool{7: false, 8: true} {
		r, err := http.NewRequestWithContext(fencing.WithToken(t.Context(), token), http.MethodPut, server.URL, nil)
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

func TestRefusalIsErrorMakesRefusalHistoryError(t *testing.T) {
	resp, b := answer(http.StatusConflict, "application/problem+json", otherHistory)
	var sent http.Header
	transport := &httpfence.Transport{
		Base:           base(func(r *http.Request) (*http.Response, error) { sent = r.Header; return resp, nil }),
		RefusalIsError: true,
	}
	r := request(t, 7)
	r = r.WithContext(fencing.WithHistory(r.Context(), "second"))
	_, err := transport.RoundTrip(r)
	var other *fencing.HistoryError
	require.ErrorAs(t, err, &other)
	require.Equal(t, fencing.HistoryError{Token: 7, Given: "second", Stored: "first"}, *other)
	require.Equal(t, http.Header{"Fencing-Token": {"7"}, "Fencing-History": {"second"}}, sent)
	require.True(t, b.closed)

	transport.History = func(*http.Request) string { return "third" }
	resp, _ = answer(http.StatusOK, "", "")
	_, err = transport.RoundTrip(r)
	require.NoError(t, err)
	require.Equal(t, []string{"third"}, sent.Values("Fencing-History"))

	transport.History = func(*http.Request) string { return "a b" }
	sent = nil
	_, err = transport.RoundTrip(r)
	require.ErrorContains(t, err, `the history id "a b" contains the character ' '`)
	require.Nil(t, sent)
}

func TestTokenIsNotSentWithHistoryOfAnotherToken(t *testing.T) {
	own := func(*http.Request) fencing.Token { return 5 }
	of := func(id string) func(*http.Request) string { return func(*http.Request) string { return id } }
	for name, c := range map[string]struct {
		transport httpfence.Transport
		ctx       string // the history of the context, beside its token 7
		want      []string
	}{
		"caller's header":             {httpfence.Transport{}, "", nil},
		"caller's header and context": {httpfence.Transport{}, "second", []string{"second"}},
		"context and Token":           {httpfence.Transport{Token: own}, "second", nil},
		"context, Token and History":  {httpfence.Transport{Token: own, History: of("third")}, "second", []string{"third"}},
		"context, Token and none":     {httpfence.Transport{Token: own, History: of("")}, "second", nil},
	} {
		var sent http.Header
		c.transport.Base = base(func(r *http.Request) (*http.Response, error) { sent = r.Header; return nil, io.EOF })
		r := request(t, 7)
		r = r.WithContext(fencing.WithHistory(r.Context(), c.ctx))
		r.Header.Set(httpfence.Header, "6")
		r.Header.Set(httpfence.HistoryHeader, "first")
		_, err := c.transport.RoundTrip(r)
		require.Equal(t, io.EOF, err)
		require.Equal(t, c.want, sent.Values(httpfence.HistoryHeader), name)
		require.Equal(t, []string{"first"}, r.Header.Values(httpfence.HistoryHeader), "the caller's request is unchanged")
	}
}

// A gateway has its own lock, writes to a store under it, and relays the store's refusal.
func TestRelayedRefusalOfAnotherTokenIsIgnored(t *testing.T) {
	gateway := httptest.NewServer(httpfence.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		httpfence.Refuse(w, &fencing.StaleError{Token: 5, Newest: 6})
	})))
	defer gateway.Close()
	for _, isError := range []bool{false, true} {
		client := &http.Client{Transport: &httpfence.Transport{RefusalIsError: isError}}
		r, err := http.NewRequestWithContext(fencing.WithToken(t.Context(), 7), http.MethodPut, gateway.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(r)
		require.NoError(t, err, "7 is not stale")
		require.Equal(t, http.StatusConflict, resp.StatusCode)
		require.NoError(t, httpfence.Refusal(resp))
		require.NoError(t, resp.Body.Close())
	}
	resp, _ := answer(http.StatusConflict, "application/problem+json", refusal)
	require.NoError(t, httpfence.Refusal(resp), "the request is unknown")
}

// A seen is a request as a test server received it.
type seen struct {
	method         string
	token, history []string
}

func TestTokenIsNotSentToAnotherHost(t *testing.T) {
	var other, own []seen
	record := func(all *[]seen, r *http.Request) {
		*all = append(*all, seen{r.Method, r.Header.Values("Fencing-Token"), r.Header.Values("Fencing-History")})
	}
	otherHost := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { record(&other, r) }))
	defer otherHost.Close()
	mux := http.NewServeMux()
	mux.Handle("/there", http.RedirectHandler(otherHost.URL, http.StatusTemporaryRedirect))
	mux.Handle("/result", http.RedirectHandler(otherHost.URL, http.StatusSeeOther))
	mux.Handle("/here", http.RedirectHandler("/ledger", http.StatusTemporaryRedirect))
	mux.HandleFunc("/ledger", func(_ http.ResponseWriter, r *http.Request) { record(&own, r) })
	server := httptest.NewServer(mux)
	defer server.Close()

	client := &http.Client{Transport: &httpfence.Transport{}}
	send := func(ctx context.Context, method, path string, header http.Header) error {
		other, own = nil, nil
		r, err := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
		require.NoError(t, err)
		r.Header = header
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	none := http.Header{}
	ctx := fencing.WithHistory(fencing.WithToken(t.Context(), 7), "first")
	set := http.Header{"Fencing-Token": {"7"}, "Fencing-History": {"first"}}

	for _, of := range []struct {
		ctx    context.Context
		header http.Header
	}{{ctx, none}, {t.Context(), set}} {
		err := send(of.ctx, http.MethodPut, "/there", of.header)
		require.ErrorIs(t, err, httpfence.ErrRedirected)
		require.Empty(t, other, "a write without its token would be unfenced")
		require.NoError(t, send(of.ctx, http.MethodGet, "/there", of.header))
		require.Equal(t, []seen{{http.MethodGet, nil, nil}}, other)
		require.NoError(t, send(of.ctx, http.MethodPut, "/result", of.header))
		require.Equal(t, []seen{{http.MethodGet, nil, nil}}, other)
		require.NoError(t, send(of.ctx, http.MethodPut, "/here", of.header), "the same host")
		require.Equal(t, []seen{{http.MethodPut, []string{"7"}, []string{"first"}}}, own)
	}
	require.NoError(t, send(t.Context(), http.MethodPut, "/there", none), "a request without a token is not refused")
	require.Equal(t, []seen{{http.MethodPut, nil, nil}}, other)
}

func TestHostIsSameOverHTTPAndHTTPS(t *testing.T) {
	for to, same := range map[string]bool{
		"http://store/b": true, "http://STORE:80/": true, "https://store/": true, "https://store:443/": true,
		"http://store:443/": false, "https://store:80/": false, "http://store:8080/": false, "http://other/": false,
		"http://store.example/": false,
	} {
		var sent []string
		transport := &httpfence.Transport{Base: base(func(r *http.Request) (*http.Response, error) {
			sent = append(sent, r.URL.String())
			resp, _ := answer(http.StatusOK, "", "")
			if len(sent) == 1 {
				resp.StatusCode = http.StatusTemporaryRedirect
				resp.Header.Set("Location", to)
			}
			return resp, nil
		})}
		r, err := http.NewRequestWithContext(fencing.WithToken(t.Context(), 7), http.MethodPut, "http://store/a", nil)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: transport}).Do(r)
		if !same {
			require.ErrorIs(t, err, httpfence.ErrRedirected, to)
			require.Equal(t, []string{"http://store/a"}, sent)
			continue
		}
		require.NoError(t, err, to)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []string{"http://store/a", to}, sent)
	}
}
