// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"errors"
	"runtime/debug"

	"github.com/lockkeeper/lockkeeper/election"
)

// call runs a function of the user on a separate goroutine, and waits for it. Its error is a *election.PanicError if the function panicked.
func call(f func() error) error { return <-start(f) }

// start runs a function of the user on a goroutine, whose error comes on the channel.
func start(f func() error) <-chan error {
	results := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if value := recover(); value != nil {
				err = &election.PanicError{Value: value, Stack: debug.Stack()}
			}
			results <- err
		}()
		err = f()
	}()
	return results
}

// errGoexit is the error of a function that did not return.
var errGoexit = errors.New("the function called runtime.Goexit")
