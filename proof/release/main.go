// SPDX-License-Identifier: Apache-2.0

// Release prepares a release of the modules that published.txt lists, all with the same version.
//
//	release [-root DIR] [-apply] VERSION
//	release [-root DIR] -artifacts OUT VERSION
//	release [-root DIR] -tidy
//
// It prints the requirements that it would change and the tags that it would create, in their order. With -apply it
// changes the go.mod files, commits them and creates the tags. It never pushes.
//
// With -artifacts it builds binaries, images, bills of materials and checksums of the commit, twice, and writes them to OUT if both builds
// are equal bit by bit.
//
// With -tidy it checks that the go.mod file of each module in go.work is tidy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	root := flags.String("root", ".", "folder of the repository")
	apply := flags.Bool("apply", false, "change the go.mod files, commit them and create the tags")
	files := flags.String("artifacts", "", "build binaries and images twice, and write them to this `folder` if both builds are equal")
	tidy := flags.Bool("tidy", false, "check that every go.mod file is tidy")
	flags.SetOutput(io.Discard)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(out, "usage: release [flags] VERSION\n\nFlags:\n") // a failure to print help cannot be reported
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("release: %w (-h lists the flags)", err)
	}
	switch {
	case *tidy && flags.NArg() == 0 && !*apply && *files == "":
		return checkTidy(ctx, out, *root)
	case *files != "" && flags.NArg() == 1 && !*tidy && !*apply:
		return artifacts(ctx, out, *root, flags.Arg(0), *files)
	case !*tidy && flags.NArg() == 1 && *files == "":
		return release(ctx, out, *root, flags.Arg(0), *apply)
	}
	return fmt.Errorf("release: want one version, or -tidy; got %q", args)
}
