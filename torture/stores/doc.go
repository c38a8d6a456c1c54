// SPDX-License-Identifier: Apache-2.0

// Package stores runs servers of databases and object stores for tests. Redis, PostgreSQL and MariaDB are those of the
// distribution's packages. Each is a separate process on a free port of 127.0.0.1, with its data in a temporary folder, which
// Close removes. The package also runs an S3 server that it builds on first use ([RunS3]), an etcd cluster, whose locks are
// compared with ours ([RunEtcd]), a cluster of MariaDB servers that all accept writes ([RunGalera]), and a key distribution center
// of Kerberos ([RunKerberos]).
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
// A write that a server has acknowledged survives Kill, because the kernel keeps the pages of a killed process. It need not
// survive a failure of the machine: the servers do not wait for the disk. This package is not sufficient to test power loss.
//
// # Requirements
//
// The programs must be installed, as install.sh does. If one is missing, the tests that need it are skipped with a message.
// They fail instead if the environment variable CI is set, so that a successful run there has run all tests.
//
// PostgreSQL and MariaDB refuse to run as root. If root starts them, they, Redis and Kerberos run as the user "nobody", who owns their
// folders.
package stores
