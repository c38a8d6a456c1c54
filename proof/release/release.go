// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// A plan is what a release of one version changes.
type plan struct {
	version string
	files   []file   // the go.mod files with other requirements than now
	changes []string // these requirements, a line each
	tags    []string // in the order in which they are created
}

type file struct {
	name string // below the root of the repository
	text []byte
}

func planOf(root, version string) (plan, error) {
	if !semver.IsValid(version) || semver.Canonical(version) != version || module.IsPseudoVersion(version) {
		return plan{}, fmt.Errorf("release %s: want a version such as v0.1.0 or v0.2.0-rc.1", version)
	}
	modules, err := Published(root)
	if err != nil {
		return plan{}, err
	}
	p := plan{version: version}
	for _, m := range modules {
		text, changes, err := m.bumped(modules[0].Path(), version)
		if err != nil {
			return plan{}, err
		}
		if len(changes) > 0 {
			p.files = append(p.files, file{m.Dir + "/go.mod", text})
			p.changes = append(p.changes, changes...)
		}
		p.tags = append(p.tags, m.Tag(version))
	}
	return p, nil
}

// release prints the plan, and carries it out if apply is set. After an error before the commit the repository is
// unchanged, except for go.mod files that were written already.
func release(ctx context.Context, out io.Writer, root, version string, apply bool) error {
	p, err := planOf(root, version)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, change := range p.changes {
		fmt.Fprintln(&text, change)
	}
	if len(p.files) > 0 {
		fmt.Fprintf(&text, "commit %q\n", p.subject())
	}
	for _, tag := range p.tags {
		fmt.Fprintf(&text, "tag %s\n", tag)
	}
	obstacles, err := p.obstacles(ctx, root)
	if err != nil {
		return err
	}
	if !apply {
		fmt.Fprintf(&text, "dry run: nothing was changed; APPLY=1 commits and tags\n")
		for _, obstacle := range obstacles {
			fmt.Fprintf(&text, "not ready: %s\n", obstacle)
		}
	}
	if _, err := out.Write(text.Bytes()); err != nil {
		return fmt.Errorf("release %s: %w", version, err)
	}
	if !apply {
		return nil
	}
	if len(obstacles) > 0 {
		return fmt.Errorf("release %s: %s", version, strings.Join(obstacles, "; "))
	}
	if err := p.apply(ctx, root); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "to publish: git push --atomic origin HEAD %s\n", strings.Join(p.tags, " "))
	return err
}

func (p plan) subject() string { return "release: require " + p.version + " of each other" }

// obstacles returns what must be done before the plan can be carried out.
func (p plan) obstacles(ctx context.Context, root string) ([]string, error) {
	var found []string
	status, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if len(status) > 0 {
		found = append(found, "the working tree has uncommitted changes")
	}
	for _, tag := range p.tags {
		existing, err := git(ctx, root, "tag", "--list", tag)
		if err != nil {
			return nil, err
		}
		if len(existing) > 0 {
			found = append(found, "the tag "+tag+" exists")
		}
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", p.version, err)
	}
	if heading := "## [" + strings.TrimPrefix(p.version, "v") + "]"; !bytes.Contains(changelog, []byte("\n"+heading)) {
		found = append(found, "CHANGELOG.md has no section "+heading)
	}
	return found, nil
}

func (p plan) apply(ctx context.Context, root string) error {
	commit := []string{"commit", "--quiet", "--message", p.subject(), "--"}
	for _, f := range p.files {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(f.name)), f.text, 0o644); err != nil {
			return fmt.Errorf("release %s: %w", p.version, err)
		}
		commit = append(commit, f.name)
	}
	if len(p.files) > 0 {
		if _, err := git(ctx, root, commit...); err != nil {
			return err
		}
	}
	for _, tag := range p.tags {
		if _, err := git(ctx, root, "tag", "--annotate", "--message", tag, tag); err != nil {
			return err
		}
	}
	return nil
}

// git runs git in dir and returns its output.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
