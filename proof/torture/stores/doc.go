// SPDX-License-Identifier: Apache-2.0

// Package stores runs servers of databases and object stores for tests. Redis, PostgreSQL and MariaDB come from the
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
// Close ends the process and removes its data. A Server's process ends with the process that started it (on Linux; elsewhere a
// killed run leaves its servers behind). A write that a server has acknowledged survives Kill, and need not survive a failure of
// the machine: the servers do not wait for the disk.
//
// The programs must be installed, as install.sh does. If one is missing, the tests that need it are skipped, or fail if the
// environment variable CI is set. PostgreSQL and MariaDB refuse to run as root: if root starts them, the user "nobody" runs them.
package stores
