// SPDX-License-Identifier: Apache-2.0

// Package stores runs other servers, for tests: Redis, PostgreSQL and MariaDB, whose writes are guarded, as the distribution
// packages them. Each is a separate process on a free port of 127.0.0.1, with its data in a temporary folder that is removed
// with it. It also runs an S3 server, built on first use: see [RunS3]; an etcd cluster, whose locks are compared with ours: see
// [RunEtcd]; and a cluster of MariaDB servers that all accept writes: see [RunGalera].
//
//	server := stores.Redis(t, nil)
//	client := dial(server.Addr)
//	…
//	server.Kill(ctx)  // SIGKILL
//	server.Start(ctx) // the same data, the same port
//
// # Guarantees
//
// Close ends the process and removes its data. A Server's process ends with the process that started it, even if that is
// killed (on Linux; elsewhere a killed run leaves its servers behind). The next start removes the data of a killed run.
//
// A write that a server has acknowledged survives Kill. It need not survive the machine: the servers write, but do not wait for
// the disk, because the kernel keeps the pages of a killed process. Tests of power loss need more than this package.
//
// # Requirements
//
// The programs, as install.sh installs them. If one is missing, the tests that need it are skipped with a message, and fail if
// the environment variable CI is set: a green run there must not mean that nothing ran.
//
// PostgreSQL and MariaDB refuse to run as root. Started by root, they and Redis run as the user "nobody", and own their
// folders.
package stores
