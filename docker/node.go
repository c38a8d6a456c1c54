// SPDX-License-Identifier: Apache-2.0

package docker

import "context"

// node is a server as a backend runs it.
type node interface {
	addr() string
	running(context.Context) error // nil, or why not
	kill(context.Context) error
	start(context.Context) error
	pause(context.Context) error
	unpause(context.Context) error
	partition(context.Context) error
	isolate(context.Context) error
	heal(context.Context) error
	tail(context.Context) string // the last lines of the log, or why there are none
	saveLogs(ctx context.Context, dir string) error
	fillDisk(context.Context) error
	freeDisk(context.Context) error
}
