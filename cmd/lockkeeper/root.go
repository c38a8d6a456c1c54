// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commands returns the commands. Each is built by a function in a file of its name.
func commands() []*cobra.Command {
	return []*cobra.Command{newRun(), newLs(), newShow(), newWatch(), newRelease(), newResize(), newDoctor(), newGuard(), newDemo(), newDev(), newServe(), newVersion()}
}

// newRoot returns the command tree.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lockkeeper",
		Short: "Locks and leader election on ZooKeeper",
		Long:  "Locks and leader election on ZooKeeper, for operators and shell scripts.\n\n" + statusTable,
		Example: "  lockkeeper run --lock /locks/backup --try -- ./backup.sh\n" +
			"  lockkeeper help run",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageErrorf("no command")
			}
			return unknownCommand(cmd, args[0])
		},
		Version:                    version(buildInfo()),
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// The first argument tells more than a flag of a command that does not exist.
		if names := cmd.Flags().Args(); cmd == root && len(names) > 0 {
			return unknownCommand(root, names[0])
		}
		if near := nearestFlag(cmd, err); near != "" {
			return usageErrorf("%w: did you mean --%s?", err, near)
		}
		return usageErrorf("%w", err)
	})
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpCommand(newHelp())
	root.AddCommand(commands()...)
	completeFiles(root)
	return root
}

// unknownCommand returns the error for a command that does not exist, with the nearest
// one that does.
func unknownCommand(root *cobra.Command, name string) error {
	if near := root.SuggestionsFor(name); len(near) > 0 {
		return usageErrorf("unknown command %q: did you mean %q?", name, near[0])
	}
	return usageErrorf("unknown command %q", name)
}

// nearestFlag returns the flag of a command that is spelt most like the one that err reports as
// missing, empty if none is.
func nearestFlag(cmd *cobra.Command, err error) string {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return ""
	}
	name := missing.GetSpecifiedName()
	if letters := missing.GetSpecifiedShortnames(); letters != "" { // -name, with one dash
		name, _, _ = strings.Cut(letters, "=")
	}
	// Cobra compares the names of commands only.
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if near := flags.SuggestionsFor(name); len(near) > 0 && len(name) > 1 {
		return near[0]
	}
	return ""
}

// newHelp returns the help command. Cobra's own exits with status 0 for a command that
// does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Print the help of a command",
		Example: "  lockkeeper help run",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			target, rest, err := root.Find(args)
			if err != nil || target == root && len(rest) > 0 {
				return unknownCommand(root, args[0])
			}
			target.InitDefaultHelpFlag() // as --help does
			return target.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				for _, c := range cmd.Root().Commands() {
					names = append(names, c.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
