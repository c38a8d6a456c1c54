// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
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

// release is the version of a build by make release, set by the linker: the go command knows none of a commit without a tag.
var release string

// buildInfo returns this program's, with the version of the release for the modules of this repository. It is nil if the
// program was built without.
func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Version == "(devel)" {
			m.Version = cmp.Or(release, m.Version)
		}
	}
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
