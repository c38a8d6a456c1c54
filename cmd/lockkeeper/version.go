// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of lockkeeper, Go and the modules in the build",
		Example: "  lockkeeper version",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printText(cmd, version(buildInfo())+"\n")
		},
	}
}

// buildInfo returns this program's, nil if it was built without.
func buildInfo() *debug.BuildInfo {
	info, _ := debug.ReadBuildInfo()
	return info
}

// version returns the versions of the module, of Go, and of the modules in the build, one on each line. info is nil for a build
// without this information.
func version(info *debug.BuildInfo) string {
	lines := []string{"lockkeeper (unknown version)"}
	if info != nil && info.Main.Version != "" {
		lines[0] = "lockkeeper " + info.Main.Version
	}
	lines = append(lines, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
	if info != nil {
		for _, m := range info.Deps {
			lines = append(lines, m.Path+" "+m.Version)
		}
	}
	return strings.Join(lines, "\n")
}
