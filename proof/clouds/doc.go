// SPDX-License-Identifier: Apache-2.0

// Package clouds contains tests only. They run the stores that the documentation of objectfence names, on the clients of
// Google Cloud Storage and Azure Blob Storage, against HTTP servers of this package on this host. It is a module of its own,
// so that no user of a guard inherits these clients.
//
// The servers implement the services' documentation, conditions included. They do not show how the services themselves
// behave: for that, run objectfence.Probe against your bucket.
package clouds
