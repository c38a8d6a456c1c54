// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// noArguments refuses arguments that are not flags.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageErrorf("takes flags only, not %q", args)
	}
	return nil
}

// oneArgument refuses any number of arguments but one, which is called name in the error.
func oneArgument(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usageErrorf("%s is missing", name)
		case len(args) > 1:
			return usageErrorf("takes one %s, not %q", name, args)
		}
		return nil
	}
}

// atMostOneArgument refuses more than one argument, which is called name in the error.
func atMostOneArgument(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageErrorf("takes one %s, not %q", name, args)
		}
		return nil
	}
}

// absolute returns an error for a path that is not absolute, before anything is connected. The package that uses the path
// checks the rest.
func absolute(path string) error {
	if path == "" || path[0] != '/' {
		return usageErrorf("path %q is not absolute", path)
	}
	return nil
}

// printText prints text to the command's standard output.
func printText(cmd *cobra.Command, text string) error {
	_, err := fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}
