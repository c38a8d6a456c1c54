// SPDX-License-Identifier: Apache-2.0

// Package redisfence lets Redis refuse the writes of clients that no longer hold the lock, through any client library. One
// script checks the token and writes.
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
// Once a script with a token has run through [Guard.Do], no script with an older token of the same resource runs. The fence
// is a separate key; a Redis server runs one script at a time, so nothing runs between the check and the write.
//
// This holds on three conditions. All writers of the resource write through the fence, with one resource name for one lock
// path. The data that they write is in the same Redis. And Redis does not lose the key. In practice it often does:
//
//   - A fail-over can lose the fence. Redis replies before its replicas have the write, and a replica without it can be
//     promoted. WAIT after the write, on the same connection, makes the loss less likely; neither it nor min-replicas-to-write
//     controls which replica is promoted. With Sentinel, Redis Cluster and every hosted Redis that fails over automatically,
//     treat the guard as an efficiency measure.
//   - A restart loses everything since the last snapshot without an append-only file, and with appendfsync everysec the last
//     second, if the machine stops. With appendfsync always it loses nothing that was acknowledged.
//   - Eviction can remove the fence and leave the data: maxmemory-policy must be noeviction, or one of volatile-*, since the
//     fence's key has no expiry.
//   - FLUSHALL, FLUSHDB, and a client that deletes, renames or restores the key remove the fence.
//
// In each case Redis admits older tokens until it has admitted a newer one. The tests demonstrate the first three on Redis 7.0,
// and that killing a server with appendfsync always loses nothing.
//
// # What it does not promise
//
// The limits of package fencing apply. In addition:
//
//   - Redis does not roll back: the effects of a script that fails midway remain, and its token is admitted.
//   - An error that wraps [ErrUncertain] means that the reply was lost: the script has run, or will run, or neither.
//   - A script is trusted: one that names the fence's key, in keys or in its text, can overwrite it. A script cannot see the
//     guard's variables.
//   - SCRIPT KILL cannot end a script that loops, because the guard has written: Redis serves no client until SHUTDOWN NOSAVE.
//
// # Clients
//
// An [Eval] is one line for go-redis, as above. For redigo it is the following, with a connection of the pool; rueidis
// offers the first form in its package rueidiscompat.
//
//	all := []any{script, len(keys)}
//	for _, key := range keys {
//		all = append(all, key)
//	}
//	return redigo.DoContext(conn, ctx, "EVAL", append(all, args...)...)
//
// Some clients resend a script after its reply was lost: go-redis does unless MaxRetries is -1, and its ClusterClient even
// then. Each call therefore has a nonce, and a repeated script does not run again: the error wraps [ErrUncertain]. The fence
// records the last 4096 calls of a resource, until a minute after the last one, in a separate key of at most half a megabyte,
// which a policy of volatile-* may evict earlier. The server may also refuse the second attempt although the first has run: its
// error reply is [ErrUncertain], unless SendsOnce in [Options] declares that the client never resends.
//
// Scripts are in Lua, without a shebang line (#!lua): [Guard.Do] refuses one. The guard needs Redis 5 or later.
//
// In a Redis Cluster all keys of a script must be in one slot, the fence's key included: put the hash tag that they share
// into the resource's name, "{ledger}" for "{ledger}:total".
//
// # Where to look next
//
// examples/fences has a program that runs.
package redisfence
