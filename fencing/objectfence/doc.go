// SPDX-License-Identifier: Apache-2.0

// Package objectfence lets an object store refuse the writes of clients that no longer hold the lock: Amazon S3 and stores
// with its interface, Google Cloud Storage, Azure Blob Storage, and other stores with conditional writes. It works with any
// client library.
//
//	guard, err := objectfence.New(bucket{client, "ledgers"}, nil)
//	…
//	err = guard.Put(ctx, "2026/total", hold.Token(), body)
//
// # What it promises
//
// Once a write of an object with a token has succeeded through a [Guard], no write of that object with an older token
// succeeds, by any process, before or after restarts. The token is stored in the object. A guard reads the object, and
// replaces it on the condition that it is still the version that was read. The check and the write are therefore one request
// to the store, which refuses it if another write came in between.
//
// This holds on three conditions. All writers of the object write through a guard. The store honours the conditions of
// writes, also of two writes that arrive at the same moment: [Probe] tests for this. And the store does not lose what it has
// written: if a bucket is restored or fails over to a lagging replica, or the object is deleted around the guard, the fence is
// lost with the data.
//
// # What it does not promise
//
// The limits of package fencing apply. In addition:
//
//   - Each object has its own fence. Where several objects belong together, an old holder can still write those that the new
//     holder has not written yet. Write them under names that have never been used, and guard the one small object that
//     names them. Do the same for large objects, since a guard reads the object before it writes, and holds it in memory.
//   - An error that wraps [ErrUncertain] means that the connection or ctx ended while the write was in progress: the object
//     was written, or will be, or neither. If the object can be read and shows that the write succeeded, there is no error.
//   - A guarded write takes two requests. Writers are not served in order: one that another writer has overtaken retries, until
//     no other interferes or its ctx is done.
//
// # Histories
//
// With [Options.History] the guard stores the id of the ensemble's history in the object, and refuses a token of another
// history, such as one of a wiped ensemble, with a [fencing.HistoryError], until an operator calls [Guard.Reset].
//
// # The format of an object
//
// An object consists of a few lines of text, an empty line, and the body. Readers without a guard skip everything up to the
// first empty line. The history is there if a guard with a history has written the object.
//
//	lockkeeper object 1
//	token 4294967311
//	history 7JX2QH5W
//	write 3UHFKW4QBZXPTMS2D6VLNRAY5E
//
// All writes to an object that does not begin like this are refused with [ErrNoToken] until [Guard.Reset] gives it a token.
// [Guard.Delete] leaves an object without a body. The token is not in the metadata, because the ETag of S3 does not depend
// on the metadata: the If-Match of an old holder could succeed although a newer holder has written.
//
// # A Store for S3
//
// This store, of github.com/aws/aws-sdk-go-v2/service/s3, makes one attempt for each write: only the guard's caller knows
// whether a retry is safe.
//
//	type bucket struct {
//		client *s3.Client
//		name   string
//	}
//
//	func (b bucket) Get(ctx context.Context, key string) (objectfence.Object, error) {
//		out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
//		var none *types.NoSuchKey
//		switch {
//		case errors.As(err, &none):
//			return objectfence.Object{}, fmt.Errorf("%w: %w", objectfence.ErrNotFound, err)
//		case err != nil:
//			return objectfence.Object{}, err
//		}
//		defer func() { _ = out.Body.Close() }() // it was only read
//		body, err := io.ReadAll(out.Body)
//		return objectfence.Object{Body: body, Version: aws.ToString(out.ETag)}, err
//	}
//
//	func (b bucket) Put(ctx context.Context, key string, body []byte, replaces string) error {
//		in := &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(body), IfMatch: &replaces}
//		if replaces == "" {
//			in.IfMatch, in.IfNoneMatch = nil, aws.String("*")
//		}
//		_, err := b.client.PutObject(ctx, in, func(o *s3.Options) { o.RetryMaxAttempts = 1 })
//		var answer interface{ HTTPStatusCode() int }
//		if errors.As(err, &answer) && slices.Contains([]int{404, 409, 412}, answer.HTTPStatusCode()) {
//			err = fmt.Errorf("%w: %w", objectfence.ErrPrecondition, err)
//		}
//		return err
//	}
//
// # Stores for Google Cloud Storage and Azure Blob Storage
//
// proof/clouds/gcs_test.go has a store for cloud.google.com/go/storage, whose bucket answers 429, an unknown outcome, above
// about one write a second of the same object. A cache of public objects must not answer a Get, hence no-store.
// proof/clouds/azure_test.go has one for github.com/Azure/azure-sdk-for-go/sdk/storage/azblob, which examines error codes, not
// statuses: a blob with a lease answers 412, too.
package objectfence
