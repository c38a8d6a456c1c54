// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// version says which build this is: of the module, of Go, and of the modules that
// went into it. info is nil for a build that does not know.
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
