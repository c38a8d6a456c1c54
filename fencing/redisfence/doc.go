// SPDX-License-Identifier: Apache-2.0

// Package redisfence lets Redis refuse the writes of clients that no longer hold the lock, through any client library.
// One script checks the token and writes.
//
//	func setTotal(ctx context.Context, client *redis.Client, token fencing.Token, total int) error {
//		guard, err := redisfence.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//			return client.Eval(ctx, script, keys, args...).Result()
//		}, nil)
//		if err != nil {
//			return err
//		}
//		_, err = guard.Do(ctx, "ledger", token, `redis.call("SET", KEYS[1], ARGV[1])`, []string{"total"}, total)
//		return err
//	}
//
// # What it promises
//
// Once a script with a token has run through [Guard.Do], none with an older token of the same resource does. The fence is
// a key of its own; a server of Redis runs one script at a time, so nothing comes between the check and the write.
//
// This holds on three conditions. All writers of the resource write through the fence, with one resource name for one lock
// path. What they write is in the same Redis. And Redis remembers the key. It often does not:
//
//   - A fail-over can forget the fence. Redis answers before its replicas have the write; one that is promoted without it
//     admits the older token, to data as old. WAIT after the write, on the same connection, says how many replicas have
//     it, and makes that rarer; it does not say which one is promoted, nor does min-replicas-to-write. With Sentinel, Redis
//     Cluster and every hosted Redis that fails over by itself, take the guard for an efficiency measure.
//   - A restart can forget it: without an append-only file all since the last snapshot, with appendfsync everysec the last
//     second, if the machine stops. With appendfsync always nothing that was answered.
//   - Eviction can forget it, and leave the data: maxmemory-policy must be noeviction, or one of volatile-*, since the
//     fence's key has no time to live.
//   - FLUSHALL, FLUSHDB, and a client that deletes, renames or restores the key forget it.
//
// In each case older tokens are admitted until a newer one has been. Data that must not be written late belongs where
// what was committed stays: see package sqlfence.
//
// The tests show the first three on Redis 7.0, and that a kill of the server with appendfsync always forgets nothing.
//
// # What it does not promise
//
//   - The first script with a newer token shuts out the older ones, not the grant of the lock. See package fencing.
//   - Redis does not roll back: a script that fails halfway leaves its half, and its token is admitted.
//   - An error that wraps [ErrUncertain] means that the answer was lost: the script has run, or will, or not.
//   - Reads are not fenced.
//   - A guard without a History in its [Options] admits the tokens of a wiped ensemble as soon as they are equal or newer.
//   - A script is trusted: one that names the fence's key, in keys or in its text, can overwrite it. It sees none of the
//     guard's variables.
//
// # Clients
//
// An [Eval] is one line for go-redis, as above. For redigo it is this, with a connection of the pool; rueidis has the
// first form in its package rueidiscompat.
//
//	all := []any{script, len(keys)}
//	for _, key := range keys {
//		all = append(all, key)
//	}
//	return redigo.DoContext(conn, ctx, "EVAL", append(all, args...)...)
//
// Some clients send a script again after its answer was lost: go-redis unless MaxRetries is -1, and its ClusterClient also
// then. So each call has a nonce, which the fence remembers, and a repeat does not run: the error wraps [ErrUncertain],
// since the result of the first run is lost, and is not that of a stale token. The fence remembers the last 4096 calls of
// a resource, for a minute after the last one, in a key of its own of at most half a megabyte, which a policy of volatile-*
// may evict earlier. For a client that sends again, set SendsAgain in [Options]. The guard needs Redis 5 or newer.
//
// In a Redis Cluster all keys of a script are in one slot, and the fence's key with them: put the tag that they share into
// the resource's name, "{ledger}" for "{ledger}:total".
package redisfence
