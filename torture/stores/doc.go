// SPDX-License-Identifier: Apache-2.0

// Package stores runs the servers of others, for tests: Redis, PostgreSQL and MariaDB, whose writes are guarded, as they
// come with the distribution. Each is a process of its own on a free port of 127.0.0.1, with its data in a temporary
// folder that goes with it. And a server of S3, which is built when it is first wanted: see [RunS3]. And a cluster of etcd,
// whose locks are compared with ours: see [RunEtcd]. And a cluster of MariaDB servers that all take writes: see [RunGalera].
//
//	server := stores.Redis(t, nil)
//	client := dial(server.Addr)
//	…
//	server.Kill(ctx)  // kill -9
//	server.Start(ctx) // the same data, the same port
//
// # What it promises
//
// Close ends the process and removes its data, and a Server's process ends with the one that started it, even if that is
// killed (on Linux: elsewhere the killed run leaves its servers behind). The data of a killed run goes with the next start.
//
// What a server has acknowledged outlives Kill. It need not outlive the machine: the servers write, but do not wait for
// the disk, because the pages that a process has written are the kernel's, and stay when the process is killed. A test of
// what a loss of power leaves needs more than this package.
//
// # What must be there
//
// The programs, as install.sh installs them. Where one is missing the tests that need it are skipped and say so, and fail
// where the environment variable CI is set: a green run there must not mean that nothing ran.
//
// PostgreSQL and MariaDB refuse to run as root. Started by root, they and Redis run as the user nobody, and own their
// folders.
package stores
