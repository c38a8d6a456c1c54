// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// version returns the versions of the module, of Go, and of the modules in the build. info
// is nil for a build without this information.
func version(info *debug.BuildInfo) string {
	parts := []string{"lockkeeper (unknown version)"}
	if info != nil && info.Main.Version != "" {
		parts[0] = "lockkeeper " + info.Main.Version
	}
	parts = append(parts, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
	if info != nil {
		for _, m := range info.Deps {
			parts = append(parts, m.Path+" "+m.Version)
		}
	}
	return strings.Join(parts, ", ")
}
