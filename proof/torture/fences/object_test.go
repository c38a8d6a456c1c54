// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// The declarations from bucket to Put are in the documentation of objectfence, line by line.

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

// A place names a bucket, so that another process can open it.
type place struct{ Endpoint, Bucket string }

func (p place) open() bucket {
	return bucket{name: p.Bucket, client: s3.New(s3.Options{
		BaseEndpoint: &p.Endpoint,
		UsePathStyle: true,
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider(stores.S3AccessKey, stores.S3SecretKey, ""),
	})}
}

// withoutRetries returns b on a client that does not retry: retries take seconds while the server is down.
func (b bucket) withoutRetries(transport http.RoundTripper) bucket {
	options := b.client.Options()
	options.HTTPClient, options.RetryMaxAttempts = &http.Client{Transport: transport}, 1
	return bucket{s3.New(options), b.name}
}

// objectServer is one S3 server for all tests. Each uses its own buckets. TestMain closes the server.
var objectServer struct {
	once   sync.Once
	server *stores.Server
	err    error
	made   atomic.Int64 // buckets
}

func closeObjectServer() error {
	if objectServer.server == nil {
		return nil
	}
	return objectServer.server.Close()
}

// buckets returns a running server, which the test may kill. next creates a bucket on it.
func buckets(tb testing.TB) (next func() place, server *stores.Server) {
	tb.Helper()
	s := &objectServer
	s.once.Do(func() { s.server, s.err = stores.RunS3(context.WithoutCancel(tb.Context()), nil) })
	if errors.Is(s.err, stores.ErrNotInstalled) {
		need.Lacking(tb, "%v", s.err)
	}
	require.NoError(tb, s.err)
	require.NoError(tb, s.server.Start(tb.Context()), "a test that failed may have killed it")
	return func() place {
		p := place{"http://" + s.server.Addr, fmt.Sprintf("bucket-%d", s.made.Add(1))}
		_, err := p.open().client.CreateBucket(tb.Context(), &s3.CreateBucketInput{Bucket: &p.Bucket})
		require.NoError(tb, err)
		return p
	}, s.server
}

// hashed names objects by a hash: this server stores them as files, and cannot store both "a" and "a/b".
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

// An objectDeath is a write whose process dies after the check.
type objectDeath struct {
	Place           place
	Resource, Value string
	Token           fencing.Token
}

// dying is a store that kills its process before the write.
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
