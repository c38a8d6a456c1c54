// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// A process reads the machine's wall clock without asking anybody, and stepping that would step it for everybody. So the
// contenders of this library can be built with a time.Now whose wall clock can be stepped: the standard library's own, with
// a line more. Everything in the process, the recipes and the ZooKeeper client alike, then reads what is stepped, and
// nothing in the recipes has to know of it.

// now is what time.Now begins with, and what it begins with in a contender whose wall clock can be stepped.
const (
	now        = "\tsec, nsec, mono := runtimeNow()\n"
	steppedNow = now + "\tsec += WallStep.Load()\n"
)

// stepVariable is added to package time, in a file of its own.
const stepVariable = `package time

import "sync/atomic"

// WallStep is by how many seconds the wall clock is stepped.
var WallStep atomic.Int64
`

// BuildStepping builds the contender in package command so that its wall clock can be stepped, in dir, and returns its path.
// It needs the go command, with the package's module as its working folder, and a minute or so the first time. A program
// that the race detector watches builds one that it watches, too.
func BuildStepping(ctx context.Context, command, dir string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("building a contender whose clock can be stepped: %w", err)
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fail(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return fail(err)
	}
	if strings.Count(string(source), now) != 1 {
		return fail(fmt.Errorf("%s does not read the clock as it did", original))
	}
	files := map[string]string{
		"time.go.txt": strings.Replace(string(source), now, steppedNow, 1), "step.go.txt": stepVariable,
	}
	replace := map[string]string{
		original: filepath.Join(dir, "time.go.txt"),
		filepath.Join(filepath.Dir(original), "step.go"): filepath.Join(dir, "step.go.txt"),
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return fail(err)
	}
	files["overlay.json"] = string(overlay)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return fail(err)
		}
	}
	binary := filepath.Join(dir, "contender")
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay.json"), "-tags", "stepclock", "-o", binary}
	if watched() {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(ctx, "go", append(args, command)...).CombinedOutput()
	if err != nil {
		return fail(errors.Join(err, errors.New(string(out))))
	}
	return binary, nil
}

// watched says whether the race detector watches this program.
func watched() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
