// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
)

// backend is a way to run servers.
type backend interface {
	// describe returns its name, for logs and errors.
	describe() string
	// launch starts the servers without waiting until they serve. remove, never
	// nil, undoes all of it, also after an error.
	launch(ctx context.Context, p *plan) (nodes []node, remove func() error, err error)
}

// A choice is a backend, and the reason why those before it in the order of preference were
// passed over: nil if none was.
type choice struct {
	backend
	over error // why another backend was passed over
	left error // why leftovers of an earlier run remain
	slow error // why Java processes start without an archive of their classes
}

// report returns lines that describe the choice.
func (c choice) report(what string) string {
	text := fmt.Sprintf("%s: %s\n", what, c.describe())
	if c.over != nil {
		text += fmt.Sprintf("%s: passed over: %v\n", what, c.over)
	}
	if c.left != nil {
		text += fmt.Sprintf("%s: leftovers of an earlier run remain: %v\n", what, c.left)
	}
	if c.slow != nil {
		text += fmt.Sprintf("%s: servers start more slowly, without an archive of their classes: %v\n", what, c.slow)
	}
	return text
}
