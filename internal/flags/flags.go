// SPDX-License-Identifier: Apache-2.0

// Package flags parses the command lines of this repository's programs, so that all report mistakes in the same words.
package flags

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Parse parses args, which contain flags only. For -h it prints about and the flags to out, and returns [flag.ErrHelp]. It
// prints nothing else: the caller reports the error, as it reports all others.
func Parse(set *flag.FlagSet, args []string, out io.Writer, about string) error {
	set.SetOutput(io.Discard)
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(out, "%s\n\nFlags:\n", about) // a failure to print help cannot be reported
		set.SetOutput(out)
		set.PrintDefaults()
		return err
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: only flags are allowed", set.Arg(0))
	}
	if err != nil {
		return fmt.Errorf("%w (-h lists the flags)", err)
	}
	return nil
}
