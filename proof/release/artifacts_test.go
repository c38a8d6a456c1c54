// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// The program is small, and the two builds share the build cache: make release also builds the command, with an empty cache.
func TestTwoBuildsOfTheCommitAreEqual(t *testing.T) {
	const version = "v0.0.0-test"
	targets := []string{"linux/amd64"}
	root, dir := newRepository(t), t.TempDir()
	write(t, root, "cmd/lockkeeper/main.go", "package main\n\nimport _ \"example.com/m\"\n\nvar release string\n\nfunc main() { println(release) }\n")
	for _, args := range [][]string{{"add", "-A"}, {"commit", "--quiet", "-m", "a command"}, {"tag", version}, {"commit", "--quiet", "--allow-empty", "-m", "later"}} {
		_, err := git(t.Context(), root, args...)
		require.NoError(t, err)
	}
	first, err := build(t.Context(), root, filepath.Join(dir, "a"), version, targets, nil)
	require.NoError(t, err)
	again, err := build(t.Context(), root, filepath.Join(dir, "another-folder"), version, targets, nil)
	require.NoError(t, err)
	require.Empty(t, differences(first, again))
	tagged, err := git(t.Context(), root, "rev-parse", version)
	require.NoError(t, err)
	info, err := buildinfo.ReadFile(filepath.Join(dir, "a", "bin", "linux_amd64", "lockkeeper"))
	require.NoError(t, err)
	require.Contains(t, info.Settings, debug.BuildSetting{Key: "vcs.revision", Value: strings.TrimSpace(string(tagged))})

	base := "lockkeeper_" + version + "_linux_amd64"
	require.Len(t, first, 4)
	unzipped, err := gzip.NewReader(bytes.NewReader(first[base+".tar.gz"]))
	require.NoError(t, err)
	archive := tar.NewReader(unzipped)
	var names []string
	for {
		header, err := archive.Next()
		if err == io.EOF { //nolint:errorlint // as package tar documents
			break
		}
		require.NoError(t, err)
		names = append(names, header.Name)
		require.Zero(t, header.ModTime.Unix(), "no time of the build")
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		require.Equal(t, header.Name == "lockkeeper", bytes.Contains(content, []byte(version)), "the program knows its version")
	}
	require.Equal(t, []string{"LICENSE", "lockkeeper"}, names)

	var bill struct {
		BOMFormat  string
		Components []struct{ Name, Version, Purl string }
	}
	require.NoError(t, json.Unmarshal(first[base+".cdx.json"], &bill))
	require.Equal(t, "CycloneDX", bill.BOMFormat)
	require.Len(t, bill.Components, 1)
	require.Equal(t, "std", bill.Components[0].Name)
	require.Equal(t, "pkg:golang/std@"+bill.Components[0].Version, bill.Components[0].Purl)

	loaded, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(first[base+"_image.tar"])), nil }, nil)
	require.NoError(t, err)
	config, err := loaded.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "65532:65532", config.Config.User)
	require.Equal(t, []string{"/lockkeeper"}, config.Config.Entrypoint)

	for line := range strings.Lines(string(first[sums])) {
		sum, name, found := strings.Cut(strings.TrimSpace(line), "  ")
		require.True(t, found)
		want := sha256.Sum256(first[name])
		require.Equal(t, hex.EncodeToString(want[:]), sum)
	}
}

func TestReleaseIsNotBuiltWithSettingsThatOthersLack(t *testing.T) {
	t.Setenv("GOFIPS140", "off")
	require.NoError(t, usualSettings(t.Context()))
	t.Setenv("GOFIPS140", "latest")
	require.ErrorContains(t, usualSettings(t.Context()), "unset them")
}

func TestFilesThatDifferBetweenTwoBuildsAreNamed(t *testing.T) {
	require.Equal(t, []string{"a", "c", "d"}, differences(
		map[string][]byte{"a": {1}, "b": {2}, "c": {3}},
		map[string][]byte{"a": {2}, "b": {2}, "d": {4}},
	))
}
