// SPDX-License-Identifier: Apache-2.0

// Package objectfence lets an object store refuse the writes of those who no longer hold the lock: Amazon S3, what speaks
// like it, and others that write on a condition, through whatever client you have.
//
//	guard, err := objectfence.New(bucket{client, "ledgers"})
//	…
//	err = guard.Put(ctx, "2026/total", hold.Token(), body)
//
// # What it promises
//
// Once a write of an object with a token has succeeded through a [Guard], no write of that object with an older token
// does, by any process, before or after restarts. The token is in the object. A guard reads it, and replaces the object on
// the condition that it is still the one that was read; so the check and the write are one request to the store, and what
// comes between the reading and the writing, for however long, makes the store refuse it.
//
// This holds on three conditions. All who write the object do so through a guard. The store honours the conditions of
// writes, for two that arrive at the same moment as well: some take them for headers they do not know, and write; [Probe]
// finds out, and belongs where you choose the store. And it keeps what it has written: where a bucket is restored from a
// backup or fails over to a replica that lags, or a lifecycle rule or a person deletes the object, the fence goes with the
// data, and an older token can be admitted again.
//
// # What it does not promise
//
//   - The first write with a newer token shuts out the older ones, not the grant of the lock. See package fencing.
//   - Each object is fenced by itself. Where several belong together, an old holder can still write those that the new one
//     has not reached. Write them under names that nobody has used, and guard the one small object that names them. The
//     same goes for large objects, since a guard reads before it writes, and in memory.
//   - An error that wraps [ErrUncertain] means that the connection ended, or ctx did, while the write was under way: it is
//     there, or will be, or not. Where the object can be read and shows that it is, there is no error.
//   - Reads are not fenced.
//   - A guarded write is two requests, where a bare one is one.
//   - Nobody is served in order. Writers of one object that come at the same time begin again until they are alone, or
//     their ctx is done.
//
// # What is in the object
//
// A text of three or four lines, an empty line, and the body. Readers without a guard skip all up to the first empty line.
//
//	lockkeeper object 1
//	token 4294967311
//	write 3UHFKW4QBZXPTMS2D6VLNRAY5E
//
// An object that does not begin like this was not written through a guard: it is shut, with [ErrNoToken], until
// [Guard.Reset] gives it a token. [Guard.Delete] leaves an object of four lines. Why the token is not in the metadata: the
// ETag of S3 does not change with that, nor when the same body is written again, so that an old holder's If-Match would
// hold where it must not.
//
// # A Store for S3
//
// With github.com/aws/aws-sdk-go-v2/service/s3. Sending again is for the guard's caller, who knows whether it may: hence
// one attempt.
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
package objectfence
