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

// anchors returns the headings of a page as a link names them: letters, digits and hyphens, in lower case.
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

func TestLinksOfPagesAreNotDead(t *testing.T) {
	for name, content := range files(t, ".md") {
		for _, found := range link.FindAllStringSubmatch(content, -1) {
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
	}
}

// function matches the declaration of a test, a benchmark or an example.
var function = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Example)\w*)\(`)

// A page names a test as a link to its file, whose text is the name with or without "Test", or as code.
var (
	linkedTest = regexp.MustCompile(`\[(\w+)\]\(([^)\s]+_test\.go)\)`)
	codeOfTest = regexp.MustCompile("(?:`|-run )(Test[A-Z]\\w+)\\b")
)

func TestTestsThatPagesNameExist(t *testing.T) {
	inFile, anywhere := map[string]map[string]bool{}, map[string]bool{}
	for name, content := range files(t, "_test.go") {
		inFile[name] = map[string]bool{}
		for _, found := range function.FindAllStringSubmatch(content, -1) {
			inFile[name][found[1]], anywhere[found[1]] = true, true
		}
	}
	named := 0
	for name, content := range files(t, ".md") {
		for _, found := range linkedTest.FindAllStringSubmatch(content, -1) {
			named++
			file := filepath.Join(filepath.Dir(name), filepath.FromSlash(found[2]))
			if tests := inFile[file]; !tests[found[1]] && !tests["Test"+found[1]] {
				t.Errorf("%s names the test %s, which %s does not have", name, found[1], file)
			}
		}
		for _, found := range codeOfTest.FindAllStringSubmatch(content, -1) {
			named++
			if !anywhere[found[1]] {
				t.Errorf("%s names the test %s, which does not exist", name, found[1])
			}
		}
	}
	require.Greater(t, named, 20, "the pages name tests")
}

// files returns the files of the repository whose names end in suffix, by name.
func files(t *testing.T, suffix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, suffix) {
			return nil
		}
		content, err := os.ReadFile(name)
		found[name] = string(content)
		return err
	}))
	require.Greater(t, len(found), 3, suffix)
	return found
}
