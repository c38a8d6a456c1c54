// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// completionTimeout bounds the requests for a completion, for which a person waits.
const completionTimeout = 2 * time.Second

// addCompletion adds the completion command of Cobra, which keeps root's standard output of now.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Example = "  source <(lockkeeper completion bash)"
	}
}

// completeFiles makes shells offer files for flags whose value is one, and for nothing else that has no completion.
func completeFiles(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); value == "file" {
				completeFlag(c, f.Name, anyFile)
			}
		})
	}
}

// anyFile lets the shell complete the name of a file, or of a program where a command is expected.
func anyFile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// completeFlag sets the completion of a flag that exists.
func completeFlag(cmd *cobra.Command, name string, complete cobra.CompletionFunc) {
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, complete))
}

// complete returns the completion of the first argument, or of a flag, which is the path of a node. With the flags of locks, which
// may be nil, it is the key of a lock service where a URL is given. If that fails, the shell shows the reason.
func (c *connection) complete(locks *serviceAccess) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), completionTimeout, &overdue{errNoServer, completionTimeout})
		defer cancel()
		var found []string
		var err error
		if locks != nil {
			err = locks.check(cmd, c)
		}
		// After a path, more of it can follow; a key is complete.
		directive := cobra.ShellCompDirectiveNoFileComp
		switch {
		case err != nil:
		case locks != nil && locks.url != "":
			found, err = locks.keysLike(ctx, c, typed)
		default:
			directive |= cobra.ShellCompDirectiveNoSpace
			found, err = c.nodesLike(ctx, typed)
		}
		if err != nil {
			return cobra.AppendActiveHelp(nil, "lockkeeper: "+err.Error()), directive
		}
		return found, directive
	}
}

// nodesLike returns the paths that begin with what was typed, of nodes that are no contenders, down to the folder in which the
// typed path ends.
func (c *connection) nodesLike(ctx context.Context, typed string) ([]string, error) {
	if typed == "" {
		typed = "/"
	}
	if err := absolute(typed); err != nil {
		return nil, err
	}
	client, err := c.connect(ctx, "", io.Discard)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	folder := typed[:strings.LastIndexByte(typed, '/')+1]
	full := client.Path("/" + strings.Trim(folder, "/"))
	children, _, err := client.Conn().Children(full)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, &recipes.Error{Op: "list", Path: full, Err: err}
	}
	var paths []string
	for _, name := range children {
		path := folder + name
		if strings.HasPrefix(path, typed) && !isContender(name) && isLiteral(name) && client.Path(path) != "/zookeeper" {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// keysLike returns the locks of a service, NAMESPACE/KEY, that begin with what was typed. The service does not list namespaces.
func (s *serviceAccess) keysLike(ctx context.Context, c *connection, typed string) ([]string, error) {
	namespace, prefix, found := strings.Cut(typed, "/")
	if !found {
		return nil, nil
	}
	locks, err := s.connect("", c)
	if err != nil {
		return nil, err
	}
	var names []string
	for status, err := range locks.List(ctx, namespace, prefix) {
		if err != nil {
			return nil, err
		}
		if isLiteral(status.Key) {
			names = append(names, namespace+"/"+status.Key)
		}
	}
	return names, nil
}

// isLiteral reports whether a name, which any program can have given, has only characters that no shell interprets. The script of
// Bash evaluates the line to complete, so that a name that it completed before would be executed.
func isLiteral(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-:@%+,=/", r)
	})
}
