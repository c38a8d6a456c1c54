// SPDX-License-Identifier: Apache-2.0

// Package clouds holds tests only: the stores that the documentation of objectfence shows, on the clients of Google Cloud
// Storage and Azure Blob Storage, against servers of this package that answer over HTTP on this host. It is a module of its
// own, so that no user of a guard inherits these clients.
//
// The servers are written after the services' documentation, and honour conditions as that says. They do not show what the
// services themselves do: for that, run objectfence.Probe against your bucket.
package clouds
