// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/torture/stores"
)

// What follows, up to the end of Put, stands in the documentation of objectfence, line by line.

type bucket struct {
	client *s3.Client
	name   string
}

func (b bucket) Get(ctx context.Context, key string) (objectfence.Object, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	var none *types.NoSuchKey
	switch {
	case errors.As(err, &none):
		return objectfence.Object{}, fmt.Errorf("%w: %w", objectfence.ErrNotFound, err)
	case err != nil:
		return objectfence.Object{}, err
	}
	defer func() { _ = out.Body.Close() }() // it was only read
	body, err := io.ReadAll(out.Body)
	return objectfence.Object{Body: body, Version: aws.ToString(out.ETag)}, err
}

func (b bucket) Put(ctx context.Context, key string, body []byte, replaces string) error {
	in := &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(body), IfMatch: &replaces}
	if replaces == "" {
		in.IfMatch, in.IfNoneMatch = nil, aws.String("*")
	}
	_, err := b.client.PutObject(ctx, in, func(o *s3.Options) { o.RetryMaxAttempts = 1 })
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) && slices.Contains([]int{404, 409, 412}, answer.HTTPStatusCode()) {
		err = fmt.Errorf("%w: %w", objectfence.ErrPrecondition, err)
	}
	return err
}

func TestDocumentationShowsTheStoreThatIsTestedHere(t *testing.T) {
	shows(t, "objectfence", code(t, "object_test.go", "\ntype bucket struct", "func Test"))
}

// A place is a bucket in words: what another process needs to find it.
type place struct{ Endpoint, Bucket string }

func (p place) open() bucket {
	return bucket{name: p.Bucket, client: s3.New(s3.Options{
		BaseEndpoint: &p.Endpoint,
		UsePathStyle: true,
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider(stores.S3AccessKey, stores.S3SecretKey, ""),
	})}
}

// impatient is b on a client that asks once: where the server is gone, to ask again takes seconds.
func (b bucket) impatient(transport http.RoundTripper) bucket {
	options := b.client.Options()
	options.HTTPClient, options.RetryMaxAttempts = &http.Client{Transport: transport}, 1
	return bucket{s3.New(options), b.name}
}

// buckets returns what makes buckets, on one server.
func buckets(tb testing.TB) (next func() place, server *stores.Server) {
	tb.Helper()
	server = stores.S3(tb, nil)
	var made atomic.Int64
	return func() place {
		p := place{"http://" + server.Addr, fmt.Sprintf("bucket-%d", made.Add(1))}
		_, err := p.open().client.CreateBucket(tb.Context(), &s3.CreateBucketInput{Bucket: &p.Bucket})
		require.NoError(tb, err)
		return p
	}, server
}

// hashed names objects by a sum: this server keeps them as files, and has no room for "a" beside "a/b".
type hashed struct{ objectfence.Store }

func hash(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

func (h hashed) Get(ctx context.Context, key string) (objectfence.Object, error) {
	return h.Store.Get(ctx, hash(key))
}

func (h hashed) Put(ctx context.Context, key string, body []byte, replaces string) error {
	return h.Store.Put(ctx, hash(key), body, replaces)
}

// objects are a bucket behind a guard.
type objects struct{ *objectfence.Guard }

func objectsOf(t *testing.T, store objectfence.Store) objects {
	t.Helper()
	return objectsOfHistory(t, store, "")
}

func objectsOfHistory(t *testing.T, store objectfence.Store, history string) objects {
	t.Helper()
	guard, err := newObjects(store, history)
	require.NoError(t, err)
	return guard
}

func newObjects(store objectfence.Store, history string) (objects, error) {
	guard, err := objectfence.New(hashed{store}, &objectfence.Options{History: history})
	return objects{guard}, err
}

func (o objects) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	return o.Put(ctx, resource, token, []byte(value))
}

func (o objects) Value(ctx context.Context, resource string) (string, error) {
	body, err := o.Get(ctx, resource)
	if errors.Is(err, objectfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

func (o objects) Reset(ctx context.Context, resource string) error {
	return o.Guard.Reset(ctx, resource, 0)
}

func TestGuardOfABucketIsAGuard(t *testing.T) {
	next, _ := buckets(t)
	require.NoError(t, objectfence.Probe(t.Context(), next().open(), "probe"))
	fencetest.Run(t, func(t *testing.T) fencetest.Subject {
		t.Helper()
		p := next()
		return fencetest.Subject{
			Open: func(t *testing.T) fencetest.Guarded {
				t.Helper()
				return objectsOf(t, p.open())
			},
			OpenHistory: func(t *testing.T, history string) fencetest.Guarded {
				t.Helper()
				return objectsOfHistory(t, p.open(), history)
			},
			Uncertain: func(err error) bool { return errors.Is(err, objectfence.ErrUncertain) },
			Crash: func(t *testing.T, _ fencetest.Guarded, resource string, token fencing.Token, value string) {
				t.Helper()
				requireDeath(t, crashingPut.Command(t.Context(), objectDeath{p, resource, value, token}))
			},
		}
	})
}

// crashingPut makes a process die before it writes an object.
var crashingPut = child.New("crash at put", objectDeath.die)

type objectDeath struct {
	Place           place
	Resource, Value string
	Token           fencing.Token
}

// dying is a store whose process does not live to see the write.
type dying struct{ objectfence.Store }

func (dying) Put(context.Context, string, []byte, string) error {
	dieAfterCheck()
	return nil
}

func (d objectDeath) die() error {
	guard, err := newObjects(dying{d.Place.open()}, "")
	if err != nil {
		return err
	}
	return guard.Write(context.Background(), d.Resource, d.Token, d.Value)
}

// A careless guard is what one writes instead, and gets wrong. Its token stands beside the value.
type carelessObjects struct {
	bucket
	fault string
}

type entry struct {
	Token fencing.Token
	Value string
}

const (
	exchanged = "< and <= exchanged"
	sameOnly  = "compares for equality"
	asksFirst = "checks in a request of its own"
)

var carelessIsCaught = map[string]string{
	exchanged: "an equal token is admitted",
	sameOnly:  "a newer token is admitted and shuts out the one before",
	asksFirst: "of two writers racing the newer wins",
}

func (h carelessObjects) read(ctx context.Context, resource string) (e entry, etag string, err error) {
	object, err := h.Get(ctx, hash(resource))
	if errors.Is(err, objectfence.ErrNotFound) {
		return entry{}, "", nil
	}
	if err == nil {
		err = json.Unmarshal(object.Body, &e)
	}
	return e, object.Version, err
}

func (h carelessObjects) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	current, etag, err := h.read(ctx, resource)
	if err != nil {
		return err
	}
	stale := token < current.Token
	switch h.fault {
	case exchanged:
		stale = token <= current.Token
	case sameOnly:
		stale = current.Token != 0 && token != current.Token
	}
	if stale {
		return &fencing.StaleError{Token: token, Newest: current.Token}
	}
	body, err := json.Marshal(entry{token, value})
	if err != nil {
		return err
	}
	if h.fault == asksFirst {
		name := hash(resource)
		_, err := h.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &h.name, Key: &name, Body: bytes.NewReader(body)})
		return err
	}
	return h.Put(ctx, hash(resource), body, etag)
}

func (h carelessObjects) Value(ctx context.Context, resource string) (string, error) {
	e, _, err := h.read(ctx, resource)
	return e.Value, err
}

func (h carelessObjects) Reset(context.Context, string) error { return errors.ErrUnsupported }

type carelessTask struct {
	Place place
	Fault string
}

func TestCarelessGuardOfABucketFailsTheSuite(t *testing.T) {
	next, _ := buckets(t)
	for fault, property := range carelessIsCaught {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			child.RequireFailure(t, "TestSuiteOfACarelessGuardOfABucket", property, carelessTask{next(), fault})
		})
	}
}

// It fails by design: TestCarelessGuardOfABucketFailsTheSuite runs it and looks at how.
func TestSuiteOfACarelessGuardOfABucket(t *testing.T) {
	var h carelessTask
	child.Task(t, &h)
	property := 0
	fencetest.Run(t, func(t *testing.T) fencetest.Subject {
		t.Helper()
		property++
		b := h.Place.open()
		b.name = fmt.Sprintf("%s-%d", h.Place.Bucket, property)
		_, err := b.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &b.name})
		require.NoError(t, err)
		return fencetest.Subject{Open: func(*testing.T) fencetest.Guarded { return carelessObjects{b, h.Fault} }}
	})
}

// Why the token does not stand in the object's metadata.
func TestETagDoesNotTellWhoWroteTheSameBytes(t *testing.T) {
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
	read, err := b.Get(t.Context(), "ledger") // by the older holder, which is paused then
	require.NoError(t, err)
	require.NoError(t, put("9", "same", &read.Version))
	require.NoError(t, put("7", "late", &read.Version), "a token in the metadata would have been overtaken")

	guard := objectsOf(t, b)
	require.NoError(t, guard.Write(t.Context(), "ledger", 7, "same"))
	paused := &hooked{Store: b, before: func() { require.NoError(t, guard.Write(t.Context(), "ledger", 9, "same")) }}
	require.ErrorIs(t, objectsOf(t, paused).Write(t.Context(), "ledger", 7, "late"), fencing.ErrStale)
}

// hooked calls before ahead of its first Put.
type hooked struct {
	objectfence.Store
	once   sync.Once
	before func()
}

func (h *hooked) Put(ctx context.Context, key string, body []byte, replaces string) error {
	h.once.Do(h.before)
	return h.Store.Put(ctx, key, body, replaces)
}

func TestFenceOfABucketOutlivesItsServer(t *testing.T) {
	next, server := buckets(t)
	guard := objectsOf(t, next().open().impatient(http.DefaultTransport))
	require.NoError(t, guard.Write(t.Context(), "ledger", 9, "nine"))
	require.NoError(t, server.Kill(t.Context()))
	err := guard.Write(t.Context(), "ledger", 9, "unwanted")
	require.Error(t, err)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.NotErrorIs(t, err, objectfence.ErrUncertain, "it could not be read, so nothing was sent")
	require.NoError(t, server.Start(t.Context()))
	var stale *fencing.StaleError
	require.ErrorAs(t, guard.Write(t.Context(), "ledger", 8, "late"), &stale)
	require.Equal(t, fencing.StaleError{Token: 8, Newest: 9}, *stale)
	value, err := guard.Value(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, "nine", value)
}

// A deaf connection takes the request and loses the answer.
type deaf struct {
	base  http.RoundTripper
	after func() // the server has answered
}

var errDeaf = &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}

func (d deaf) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.base.RoundTrip(request)
	if err != nil || request.Method != http.MethodPut {
		return response, err
	}
	d.after()
	return nil, errors.Join(errDeaf, response.Body.Close())
}

func TestLostAnswerOfABucketIsNeitherStaleNorSuccess(t *testing.T) {
	next, server := buckets(t)
	p := next()
	others := objectsOf(t, p.open())
	losing := func(after func()) objects {
		return objectsOf(t, p.open().impatient(deaf{http.DefaultTransport, after}))
	}
	require.NoError(t, losing(func() {}).Write(t.Context(), "ledger", 7, "seven"), "the object tells")

	err := losing(func() { require.NoError(t, others.Write(t.Context(), "ledger", 9, "nine")) }).
		Write(t.Context(), "ledger", 7, "seven again")
	require.ErrorIs(t, err, objectfence.ErrUncertain, "it was there, and is no more")
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	err = losing(func() { require.NoError(t, server.Kill(t.Context())) }).Write(t.Context(), "ledger", 10, "ten")
	require.ErrorIs(t, err, objectfence.ErrUncertain)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.NoError(t, server.Start(t.Context()))
	require.ErrorIs(t, others.Write(t.Context(), "ledger", 9, "late"), fencing.ErrStale, "it had been written")
}

// The S3 client retries by itself, unless its options forbid it: the second request would be rejected because of the
// first, and an older write that was there be called stale.
func TestStoreOfABucketSendsAWriteOnce(t *testing.T) {
	next, _ := buckets(t)
	b := next().open()
	sent := 0
	options := b.client.Options()
	options.HTTPClient = &http.Client{Transport: deaf{http.DefaultTransport, func() { sent++ }}}
	b.client = s3.New(options)
	err := b.Put(t.Context(), "ledger", []byte("body"), "")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, objectfence.ErrPrecondition)
	require.Equal(t, 1, sent)
}

func TestBucketThatIsNotThereIsAnError(t *testing.T) {
	next, _ := buckets(t)
	p := next()
	p.Bucket = "missing"
	guard := objectsOf(t, p.open())
	err := guard.Write(t.Context(), "ledger", 7, "unwanted")
	require.ErrorContains(t, err, "NoSuchBucket")
	require.NotErrorIs(t, err, objectfence.ErrUncertain)
	require.ErrorContains(t, objectfence.Probe(t.Context(), p.open(), "probe"), "NoSuchBucket")
}
