// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// This is the reason for which the token is not in the object's metadata.
func TestETagDoesNotDistinguishWritersOfTheSameBytes(t *testing.T) {
	next, _ := buckets(t)
	b := next().open()
	put := func(token, body string, match *string) error {
		_, err := b.client.PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: &b.name, Key: aws.String("ledger"), Body: strings.NewReader(body),
			Metadata: map[string]string{"token": token}, IfMatch: match,
		})
		return err
	}
	require.NoError(t, put("7", "same", nil))
	read, err := b.Get(t.Context(), "ledger") // by the older holder, which is then paused
	require.NoError(t, err)
	require.NoError(t, put("9", "same", &read.Version))
	require.NoError(t, put("7", "stale", &read.Version), "with the token in the metadata, the stale write is accepted")

	guard := objectsOf(t, b)
	require.NoError(t, guard.Write(t.Context(), "ledger", 7, "same"))
	paused := &hooked{Store: b, before: func() { require.NoError(t, guard.Write(t.Context(), "ledger", 9, "same")) }}
	require.ErrorIs(t, objectsOf(t, paused).Write(t.Context(), "ledger", 7, "stale"), fencing.ErrStale)
}

// hooked calls before immediately before its first Put.
type hooked struct {
	objectfence.Store
	once   sync.Once
	before func()
}

func (h *hooked) Put(ctx context.Context, key string, body []byte, replaces string) error {
	h.once.Do(h.before)
	return h.Store.Put(ctx, key, body, replaces)
}

func TestFenceOfABucketSurvivesKillOfItsServer(t *testing.T) {
	next, server := buckets(t)
	guard := objectsOf(t, next().open().withoutRetries(http.DefaultTransport))
	require.NoError(t, guard.Write(t.Context(), "ledger", 9, "nine"))
	require.NoError(t, server.Kill(t.Context()))
	err := guard.Write(t.Context(), "ledger", 9, "unwanted")
	require.Error(t, err)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.NotErrorIs(t, err, objectfence.ErrUncertain, "the read failed, so no write was sent")
	require.NoError(t, server.Start(t.Context()))
	var stale *fencing.StaleError
	require.ErrorAs(t, guard.Write(t.Context(), "ledger", 8, "stale"), &stale)
	require.Equal(t, fencing.StaleError{Token: 8, Newest: 9}, *stale)
	value, err := guard.Value(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, "nine", value)
}

// A losingTransport sends requests and loses the answers to writes.
type losingTransport struct {
	base  http.RoundTripper
	after func() // called when the server has answered
}

var errAnswerLost = &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}

func (d losingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.base.RoundTrip(request)
	if err != nil || request.Method != http.MethodPut {
		return response, err
	}
	d.after()
	return nil, errors.Join(errAnswerLost, response.Body.Close())
}

func TestLostAnswerOfABucketIsNeitherStaleNorSuccess(t *testing.T) {
	next, server := buckets(t)
	p := next()
	others := objectsOf(t, p.open())
	losing := func(after func()) objects {
		return objectsOf(t, p.open().withoutRetries(losingTransport{http.DefaultTransport, after}))
	}
	require.NoError(t, losing(func() {}).Write(t.Context(), "ledger", 7, "seven"), "the guard reads the object again")

	err := losing(func() { require.NoError(t, others.Write(t.Context(), "ledger", 9, "nine")) }).
		Write(t.Context(), "ledger", 7, "seven again")
	require.ErrorIs(t, err, objectfence.ErrUncertain, "the object was overwritten meanwhile")
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	err = losing(func() { require.NoError(t, server.Kill(t.Context())) }).Write(t.Context(), "ledger", 10, "ten")
	require.ErrorIs(t, err, objectfence.ErrUncertain)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.NoError(t, server.Start(t.Context()))
	require.ErrorIs(t, others.Write(t.Context(), "ledger", 9, "stale"), fencing.ErrStale, "10 had been written")
}

// The S3 client retries by itself, unless its options forbid it. The server would reject the second request because of the
// first one, and the guard would report a successful write as stale.
func TestStoreOfABucketSendsAWriteOnce(t *testing.T) {
	next, _ := buckets(t)
	b := next().open()
	sent := 0
	options := b.client.Options()
	options.HTTPClient = &http.Client{Transport: losingTransport{http.DefaultTransport, func() { sent++ }}}
	b.client = s3.New(options)
	err := b.Put(t.Context(), "ledger", []byte("body"), "")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, objectfence.ErrPrecondition)
	require.Equal(t, 1, sent)
}

func TestMissingBucketIsAnError(t *testing.T) {
	next, _ := buckets(t)
	p := next()
	p.Bucket = "missing"
	guard := objectsOf(t, p.open())
	err := guard.Write(t.Context(), "ledger", 7, "unwanted")
	require.ErrorContains(t, err, "NoSuchBucket")
	require.NotErrorIs(t, err, objectfence.ErrUncertain)
	require.ErrorContains(t, objectfence.Probe(t.Context(), p.open(), "probe"), "NoSuchBucket")
}
