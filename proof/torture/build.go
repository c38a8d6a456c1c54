// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/mutants"
)

// A process reads the wall clock of the machine, and a step of that clock would affect all processes. So the contenders of this
// library can be built with a time.Now whose wall clock can be stepped: the standard library's, with one more line. All code in
// the process, the recipes and the ZooKeeper client included, then reads the stepped clock, and the recipes need no change.

// now is the first line of time.Now, and steppedNow replaces it in a contender whose wall clock can be stepped.
const (
	now        = "\tsec, nsec, mono := runtimeNow()\n"
	steppedNow = now + "\tsec += WallStep.Load()\n"
)

// stepVariable is added to package time, in its own file.
const stepVariable = `package time

import "sync/atomic"

// WallStep is the step of the wall clock, in seconds.
var WallStep atomic.Int64
`

// A Build describes how contenders are built.
type Build struct {
	Steps  bool   // their wall clock can be stepped
	Mutant string // file of a patch that breaks the library in them; "" for none
}

// BuildStepping builds a contender whose wall clock can be stepped: see Build.Contender.
func BuildStepping(ctx context.Context, command, dir string) (string, error) {
	return Build{Steps: true}.Contender(ctx, command, dir)
}

// Contender builds the contender of package command in dir and returns its path. It needs the go command, and the package's
// module as the working folder. The first build takes about a minute. If the calling program was built with the race detector,
// so is the contender.
func (b Build) Contender(ctx context.Context, command, dir string) (string, error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("build contender: %w", err) }
	replace := map[string]string{}
	args := []string{"build"}
	if b.Steps {
		stepping, err := stepped(ctx, dir)
		if err != nil {
			return fail(err)
		}
		maps.Copy(replace, stepping)
		args = append(args, "-tags", "stepclock")
	}
	if b.Mutant != "" {
		root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", libraryModule).Output()
		if err != nil {
			return fail(err)
		}
		mutated, err := mutants.Patched(strings.TrimSpace(string(root)), filepath.Join(dir, "mutant"), b.Mutant)
		if err != nil {
			return fail(err)
		}
		maps.Copy(replace, mutated)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return fail(err)
	}
	file, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "contender")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return fail(err)
	}
	args = append(args, "-overlay", file, "-o", binary)
	if hasRaceDetector() {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(ctx, "go", append(args, command)...).CombinedOutput()
	if err != nil {
		return fail(errors.Join(err, errors.New(string(out))))
	}
	return binary, nil
}

// libraryModule is the module that mutants patch.
const libraryModule = "github.com/lockkeeper/lockkeeper"

// stepped writes a package time whose wall clock can be stepped into dir. It returns the files, by the original files that they
// replace.
func stepped(ctx context.Context, dir string) (map[string]string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return nil, err
	}
	if strings.Count(string(source), now) != 1 {
		return nil, fmt.Errorf("%s does not read the clock as expected: adapt package torture to this version of Go", original)
	}
	for name, content := range map[string]string{
		"time.go.txt": strings.Replace(string(source), now, steppedNow, 1), "step.go.txt": stepVariable,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	return map[string]string{
		original: filepath.Join(dir, "time.go.txt"),
		filepath.Join(filepath.Dir(original), "step.go"): filepath.Join(dir, "step.go.txt"),
	}, nil
}

// hasRaceDetector reports whether this program was built with the race detector.
func hasRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
