// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// targets are what the command is built for. Images are built for linux.
var targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

// artifacts builds the files of a release twice, from two clones of the commit in folders of different names, the second time with
// an empty build cache. It keeps them in dir if both builds are equal bit by bit, and prints their checksums.
//
// It builds the tagged commit. Without the tag, it builds the newest one, and prints that, since a binary names its commit.
func artifacts(ctx context.Context, out io.Writer, root, version, dir string) error {
	if err := usualSettings(ctx); err != nil {
		return err
	}
	if !isTag(ctx, root, version) {
		if _, err := fmt.Fprintf(out, "%s is no tag: the release will have other checksums than this commit\n", version); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "lockkeeper-release-")
	if err != nil {
		return err
	}
	defer func() { _ = exec.Command("chmod", "-R", "u+w", work).Run(); _ = os.RemoveAll(work) }() // the files in dir are what counts
	first, err := build(ctx, root, filepath.Join(work, "a"), version, targets, nil)
	if err != nil {
		return err
	}
	again, err := build(ctx, root, filepath.Join(work, "another-folder"), version, targets, []string{"GOCACHE=" + filepath.Join(work, "cache")})
	if err != nil {
		return err
	}
	if differ := differences(first, again); len(differ) > 0 {
		return fmt.Errorf("release: two builds of the commit differ: %s", strings.Join(differ, ", "))
	}
	for name, content := range first {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	_, err = out.Write(first[sums])
	return err
}

// usualSettings returns an error if the go command has settings that change what it builds, and that another party would not have.
func usualSettings(ctx context.Context) error {
	text, err := exec.CommandContext(ctx, "go", "env", "GOEXPERIMENT", "GOFIPS140").Output()
	if err != nil {
		return fmt.Errorf("release: go env: %w", err)
	}
	if string(text) != "\noff\n" {
		return fmt.Errorf("release: GOEXPERIMENT and GOFIPS140 are %q: unset them", text)
	}
	return nil
}

// isTag reports whether the repository has the tag.
func isTag(ctx context.Context, root, version string) bool {
	_, err := git(ctx, root, "rev-parse", "--verify", "--quiet", "refs/tags/"+version)
	return err == nil
}

// sums is the file with the checksums of the others.
const sums = "SHA256SUMS"

// differences returns the names of the files that are not equal in both.
func differences(a, b map[string][]byte) (names []string) {
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			names = append(names, name)
		}
	}
	for name := range b {
		if a[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// build clones the tagged commit of root to dir, or the newest one, and returns the files of a release, by name.
func build(ctx context.Context, root, dir, version string, targets, env []string) (map[string][]byte, error) {
	clone := []string{"clone", "-q", "--no-hardlinks", ".", dir}
	if isTag(ctx, root, version) {
		clone = append(clone, "--branch", version)
	}
	if _, err := git(ctx, root, clone...); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	prefix := "lockkeeper_" + version
	for _, target := range targets {
		system, arch, _ := strings.Cut(target, "/")
		program := "lockkeeper"
		if system == "windows" {
			program += ".exe"
		}
		binary := filepath.Join(dir, "bin", system+"_"+arch, program)
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-buildid= -X main.release="+version, "-o", binary, ".")
		cmd.Dir = filepath.Join(dir, "cmd", "lockkeeper")
		// GOFLAGS replaces what the user has stored for it, which an empty one would not.
		cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-trimpath"), env...)
		if output, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("release: go build for %s: %w\n%s", target, err, output)
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			return nil, err
		}
		license, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
		if err != nil {
			return nil, err
		}
		base := prefix + "_" + system + "_" + arch
		if files[base+".tar.gz"], err = archive(map[string][]byte{program: content, "LICENSE": license}); err != nil {
			return nil, err
		}
		if files[base+".cdx.json"], err = bill(binary, version); err != nil {
			return nil, err
		}
		if system == "linux" {
			if files[base+"_image.tar"], err = image(arch, version, content); err != nil {
				return nil, err
			}
		}
	}
	var list strings.Builder
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	files[sums] = []byte(list.String())
	return files, nil
}

// archive returns a compressed archive of the files, which has no time and no user.
func archive(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	if err := writeTar(zipped, files); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeTar(to io.Writer, files map[string][]byte) error {
	archive := tar.NewWriter(to)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		header := &tar.Header{Name: name, Size: int64(len(files[name])), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if strings.HasPrefix(name, "lockkeeper") {
			header.Mode = 0o755
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return err
		}
	}
	return archive.Close()
}

// bill returns the bill of materials of a binary, as CycloneDX: the modules that the go command has recorded in it.
func bill(binary, version string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	components := []cyclonedx.Component{{
		Type: cyclonedx.ComponentTypeLibrary, BOMRef: "pkg:golang/std@" + info.GoVersion, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion,
	}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		at := cmp.Or(m.Version, version) // go.work replaces the project's own modules
		if at == "(devel)" {
			at = version
		}
		url := "pkg:golang/" + m.Path + "@" + at
		components = append(components, cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: m.Path, Version: at, PackageURL: url})
	}
	b := cyclonedx.NewBOM() // without a serial number and a time, which would differ
	b.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		Type: cyclonedx.ComponentTypeApplication, BOMRef: "lockkeeper", Name: info.Path, Version: version,
	}}
	b.Components = &components
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(b); err != nil {
		return nil, fmt.Errorf("release: bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// image returns an image of `lockkeeper serve`, as service/deploy/Dockerfile describes it, for docker load.
func image(arch, version string, binary []byte) ([]byte, error) {
	var layer bytes.Buffer
	if err := writeTar(&layer, map[string][]byte{"lockkeeper": binary}); err != nil {
		return nil, err
	}
	content, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	i, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return nil, err
	}
	config, err := i.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS = arch, "linux"
	config.Config = v1.Config{User: "65532:65532", Entrypoint: []string{"/lockkeeper"}, Cmd: []string{"serve"}}
	if i, err = mutate.ConfigFile(i, config); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	tag, err := name.NewTag("lockkeeper:" + strings.ReplaceAll(version, "+", "-"))
	if err == nil {
		err = tarball.Write(tag, i, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("release: write image: %w", err)
	}
	return out.Bytes(), nil
}
