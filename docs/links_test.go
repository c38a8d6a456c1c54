// SPDX-License-Identifier: Apache-2.0

package worker_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// What stands at the head of a section, as it is written in a link to it: letters, digits and hyphens, in lower case.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for l := range strings.Lines(text) {
		if title, isTitle := strings.CutPrefix(strings.TrimLeft(l, "#"), " "); isTitle && strings.HasPrefix(l, "#") {
			title = strings.ToLower(strings.TrimSpace(title))
			title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(title, "")
			found[strings.ReplaceAll(title, " ", "-")] = true
		}
	}
	return found
}

func TestLinksOfAllPagesLeadSomewhere(t *testing.T) {
	pages := 0
	require.NoError(t, filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		pages++
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, found := range link.FindAllStringSubmatch(string(content), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), filepath.FromSlash(target))
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Errorf("%s: %s: %v", name, found[1], err)
				continue
			}
			if anchor == "" || info.IsDir() {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if !anchors(string(text))[anchor] {
				t.Errorf("%s: %s: no such heading", name, found[1])
			}
		}
		return nil
	}))
	require.Greater(t, pages, 3)
}
