// SPDX-License-Identifier: Apache-2.0

package docker

import "errors"

// ErrUnsupported is matched by the error of an operation that the backend in use does not
// support, such as a partition of a server that the test did not start. The error names
// what is missing. It is not errors.ErrUnsupported, which errors of the operating system
// match for reasons that have nothing to do with faults.
var ErrUnsupported = errors.New("not possible with these servers")

// ErrNoBackend is matched by the error of Run when no backend is available: no ZK_SERVERS, no
// container engine, no Java with ZooKeeper's jars.
var ErrNoBackend = errors.New("nothing to run ZooKeeper with")
