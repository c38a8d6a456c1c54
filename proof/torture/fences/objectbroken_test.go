// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
	"github.com/lockkeeper/lockkeeper/internal/child"
)

// brokenObjects are objects with a plausible but wrong replacement of the guard, which stores the token beside the value.
type brokenObjects struct {
	bucket
	fault string
}

// An entry is the content of an object.
type entry struct {
	Token fencing.Token
	Value string
}

// Mistakes of a guard.
const (
	swapped      = "swaps < and <="
	equalityOnly = "compares for equality"
	checksFirst  = "checks in a separate request"
)

// brokenObjectGuards maps each mistake to the property that detects it.
var brokenObjectGuards = map[string]string{
	swapped:      "an equal token is admitted",
	equalityOnly: "a newer token is admitted and shuts out the one before",
	checksFirst:  "of two writers racing the newer wins",
}

func (h brokenObjects) read(ctx context.Context, resource string) (e entry, etag string, err error) {
	object, err := h.Get(ctx, hash(resource))
	if errors.Is(err, objectfence.ErrNotFound) {
		return entry{}, "", nil
	}
	if err == nil {
		err = json.Unmarshal(object.Body, &e)
	}
	return e, object.Version, err
}

func (h brokenObjects) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	current, etag, err := h.read(ctx, resource)
	if err != nil {
		return err
	}
	stale := token < current.Token
	switch h.fault {
	case swapped:
		stale = token <= current.Token
	case equalityOnly:
		stale = current.Token != 0 && token != current.Token
	}
	if stale {
		return &fencing.StaleError{Token: token, Newest: current.Token}
	}
	body, err := json.Marshal(entry{token, value})
	if err != nil {
		return err
	}
	if h.fault == checksFirst {
		name := hash(resource)
		_, err := h.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &h.name, Key: &name, Body: bytes.NewReader(body)})
		return err
	}
	return h.Put(ctx, hash(resource), body, etag)
}

func (h brokenObjects) Value(ctx context.Context, resource string) (string, error) {
	e, _, err := h.read(ctx, resource)
	return e.Value, err
}

func (h brokenObjects) Reset(context.Context, string) error { return errors.ErrUnsupported }

type brokenObjectsTask struct {
	Place place
	Fault string
}

func TestBrokenGuardOfABucketFailsTheSuite(t *testing.T) {
	next, _ := buckets(t)
	for fault, property := range brokenObjectGuards {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			child.RequireFailure(t, "TestSuiteOfABrokenGuardOfABucket", property, brokenObjectsTask{next(), fault})
		})
	}
}

// It fails. TestBrokenGuardOfABucketFailsTheSuite runs it and checks which property fails.
func TestSuiteOfABrokenGuardOfABucket(t *testing.T) {
	var h brokenObjectsTask
	child.Task(t, &h)
	property := 0
	fencetest.Run(t, func(t *testing.T) fencetest.Subject {
		t.Helper()
		property++
		b := h.Place.open()
		b.name = fmt.Sprintf("%s-%d", h.Place.Bucket, property)
		_, err := b.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &b.name})
		require.NoError(t, err)
		return fencetest.Subject{Open: func(*testing.T) fencetest.Guarded { return brokenObjects{b, h.Fault} }}
	})
}
