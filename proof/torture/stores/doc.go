// SPDX-License-Identifier: Apache-2.0

// Package stores runs servers of databases and object stores for tests, each as a separate process on a free port of 127.0.0.1,
// with its data in a temporary folder, which Close removes.
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
