// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// runArguments are the arguments of the run command.
type runArguments struct {
	connection  connection
	service     serviceAccess
	lock, elect string // a path; one of them is empty
	wait        time.Duration
	waits       bool // wait is set
	try         bool
	owner       string
	successor   string // ID of the candidate that is to lead next
	command     []string
}

func (a *runArguments) check(cmd *cobra.Command) error {
	switch {
	case a.lock == "" && a.elect == "":
		return usageErrorf("--lock or --elect is missing")
	case a.lock != "" && a.elect != "":
		return usageErrorf("--lock and --elect exclude each other")
	case a.successor != "" && (a.elect == "" || a.service.url != ""):
		return usageErrorf("--hand-over-to applies to --elect with --servers only: a lock goes to the next waiter")
	case a.try && a.elect != "":
		return usageErrorf("--try applies to --lock only: a candidate waits for its turn")
	case a.try && a.waits:
		return usageErrorf("--try and --wait exclude each other")
	case a.waits && a.wait <= 0:
		return usageErrorf("--wait %v is not positive: use --try", a.wait)
	}
	if err := recipes.CheckOwner(a.owner); err != nil {
		return usageErrorf("--owner: %w", err)
	}
	if err := a.service.check(cmd, &a.connection, a.lock, a.elect); err != nil || a.service.url != "" {
		return err
	}
	if err := absolute(a.lock + a.elect); err != nil {
		return err
	}
	return a.connection.check()
}
