// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"
)

// The exit statuses, as in flock and sysexits.h.
const (
	statusOK          = 0
	statusFailed      = 1
	statusUsage       = 64
	statusUnavailable = 69
	statusInternal    = 70
	statusLost        = 75
	statusNotExecuted = 126
	statusNotFound    = 127
	statusSignalled   = 128 // plus the number of the signal
)

// statusTable is the part of the help that lists the exit statuses.
const statusTable = `Exit statuses:
    0  success
    1  failure, such as a problem that doctor found;
       run: the lock was not acquired, with --try or within --wait
   64  wrong usage
   69  no server of the ensemble, or no replica of the lock service, could be reached in time
   70  run: another error, such as a refusal by a server
   75  run: the hold was lost before the command had ended
  126  run: the command could not be started
  127  run: the command was not found
  128+n  run: the command, or the wait for the lock, was ended by signal n
Otherwise, run exits with the status of its command.
`

// A statusError ends the command with an exit status. Without err, nothing more is printed.
type statusError struct {
	status int
	err    error
}

// Error returns the text of the cause.
func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *statusError) Unwrap() error { return e.err }

// usageErrorf returns an error that reports a mistake in the arguments.
func usageErrorf(format string, args ...any) error {
	return &statusError{statusUsage, fmt.Errorf(format, args...)}
}

// errNoServer is the cause of a request that ends with the connect timeout.
var errNoServer = errors.New("no server answered in time")

// unavailable are the errors of requests that no server answered.
var unavailable = []error{errNoServer, zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrNoServer, zk.ErrClosing}

// unanswered reports whether an error belongs to a request that no server answered.
func unanswered(err error) bool {
	return slices.ContainsFunc(unavailable, func(e error) bool { return errors.Is(err, e) })
}

// report prints a command's error, and returns the exit status.
func report(cmd *cobra.Command, err error, stderr io.Writer) int {
	if err == nil {
		return statusOK
	}
	failure := &statusError{statusFailed, err}
	if !errors.As(err, &failure) && unanswered(err) {
		failure.status = statusUnavailable
	}
	if failure.err == nil {
		return failure.status
	}
	name := ""
	if cmd.HasParent() {
		_, name, _ = strings.Cut(cmd.CommandPath(), " ")
		if strings.HasPrefix(err.Error(), name+" ") {
			name = "" // the operation has the name of the command
		} else {
			name += ": "
		}
	}
	logError(stderr, "%s%v", name, err)
	if failure.status == statusUsage {
		// If standard error cannot be written, the status is all that is left.
		_, _ = fmt.Fprintf(stderr, "see '%s --help'\n", cmd.CommandPath())
	}
	return failure.status
}

// logError prints an error to stderr, after the name of the program.
func logError(stderr io.Writer, format string, args ...any) {
	// If standard error cannot be written, the status is all that is left.
	_, _ = fmt.Fprintf(stderr, "lockkeeper: "+format+"\n", args...)
}
