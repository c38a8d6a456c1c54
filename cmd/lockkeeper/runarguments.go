// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/ownerlabel"
	"github.com/lockkeeper/lockkeeper/lock"
)

// runArguments are the arguments of the run command.
type runArguments struct {
	connection connection
	service    serviceAccess
	locks      []string // paths; empty if elect is set
	elect      string   // a path
	shared     bool
	permits    string // N/LIMIT or N
	slots      int    // the number of slots, one of which the command holds
	numbered   bool   // slots is set
	lockDelay  time.Duration
	delays     bool // lockDelay is set
	wait       time.Duration
	waits      bool // wait is set
	try        bool
	guarded    bool
	owner      string
	successor  string // ID of the candidate that is to lead next
	command    []string

	weight, limit int // permits; a limit of 0 is the one that is stored
}

// paths returns the paths of the locks, or of the election.
func (a *runArguments) paths() []string {
	if a.elect != "" {
		return []string{a.elect}
	}
	return a.locks
}

func (a *runArguments) check(cmd *cobra.Command) error {
	// First, since the environment may name the service.
	if err := a.service.check(cmd, &a.connection, a.paths()...); err != nil {
		return err
	}
	switch {
	case len(a.locks) == 0 && a.elect == "":
		return usageErrorf("--lock or --elect is missing")
	case len(a.locks) > 0 && a.elect != "":
		return usageErrorf("--lock and --elect exclude each other")
	case a.successor != "" && (a.elect == "" || a.service.url != ""):
		return usageErrorf("--hand-over-to applies to --elect with --servers only: a lock goes to the next waiter")
	case a.try && a.elect != "":
		return usageErrorf("--try applies to --lock only: a candidate waits for its turn")
	case a.try && a.waits:
		return usageErrorf("--try and --wait exclude each other")
	case a.guarded && a.service.url != "":
		return usageErrorf("--guard needs --servers: a lease of the lock service has no session")
	case a.guarded && (a.connection.certificates.ca != "" || a.connection.certificates.cert != ""):
		return usageErrorf("--guard connects without TLS: leave out --ca and --cert")
	case a.waits && a.wait <= 0:
		return usageErrorf("--wait %v is not positive: use --try", a.wait)
	}
	if err := ownerlabel.Check(a.owner); err != nil {
		return usageErrorf("--owner: %w", err)
	}
	if err := a.checkHold(); err != nil || a.service.url != "" {
		return err
	}
	for _, path := range a.paths() {
		if err := absolute(path); err != nil {
			return err
		}
	}
	return a.connection.check()
}

// checkHold returns an error for flags that contradict each other, of those for a hold that is not the exclusive one of one lock.
func (a *runArguments) checkHold() error {
	given := "" // one of these flags
	switch {
	case a.shared:
		given = "--shared"
	case a.permits != "":
		given = "--permits"
	case a.numbered:
		given = "--slot"
	case a.delays:
		given = "--lock-delay"
	case len(a.locks) > 1:
		given = "a second --lock"
	}
	switch {
	case given == "":
		return nil
	case a.elect != "":
		return usageErrorf("%s applies to --lock only: an election has one leader", given)
	case a.service.url != "":
		return usageErrorf("%s needs --servers: the lock service grants one exclusive lock at a time", given)
	case a.permits != "" && a.shared:
		return usageErrorf("--permits and --shared exclude each other: commands with permits run at the same time anyway, so leave out --shared")
	case a.numbered && (a.shared || a.permits != ""):
		return usageErrorf("%s and --slot exclude each other: commands with slots run at the same time, each with a number of its own", given)
	case a.numbered && (a.slots < 1 || a.slots > lock.MaxSlots):
		return usageErrorf("--slot %d: the number of slots must be from 1 to %d", a.slots, lock.MaxSlots)
	case (a.permits != "" || a.numbered) && len(a.locks) > 1:
		return usageErrorf("%s takes one --lock: take the others with a second lockkeeper run as the command", given)
	case a.delays && given != "--lock-delay":
		return usageErrorf("--lock-delay and %s exclude each other: only an exclusive holder leaves a record for its successor", given)
	case a.delays && len(a.locks) > 1:
		return usageErrorf("--lock-delay takes one --lock: the delays of several would add up while the others are held")
	case a.delays && a.lockDelay <= 0:
		return usageErrorf("--lock-delay %v is not positive: leave it out", a.lockDelay)
	case a.delays && a.waits && a.wait <= a.lockDelay:
		return usageErrorf("--wait %v ends before a --lock-delay of %v: wait longer", a.wait, a.lockDelay)
	}
	for i, path := range a.locks {
		if slices.Contains(a.locks[:i], path) {
			return usageErrorf("--lock %s is given twice: leave one out", path)
		}
	}
	return a.parsePermits()
}

// parsePermits sets weight and limit.
func (a *runArguments) parsePermits() error {
	if a.permits == "" {
		return nil
	}
	n, limit, limited := strings.Cut(a.permits, "/")
	var malformed error
	if a.weight, malformed = strconv.Atoi(n); malformed == nil && limited {
		a.limit, malformed = strconv.Atoi(limit)
	}
	switch {
	case malformed != nil:
		return usageErrorf("--permits %q is not N/LIMIT: 1/4 holds one permit of four", a.permits)
	case a.weight < 1 || a.weight > lock.MaxPermits || limited && (a.limit < 1 || a.limit > lock.MaxPermits):
		return usageErrorf("--permits %s: both numbers must be from 1 to %d", a.permits, lock.MaxPermits)
	case limited && a.weight > a.limit:
		return usageErrorf("--permits %s: %d permits are never free at a limit of %d: ask for fewer", a.permits, a.weight, a.limit)
	}
	return nil
}
