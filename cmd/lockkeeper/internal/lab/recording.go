// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// recordings has a file for each recorded run, "paused-leader-1.json". A test makes them in fake time, and compares them with another
// run of the same preset and seed.
//
//go:embed recordings
var recordings embed.FS

// A Recording is a run of a preset.
type Recording struct {
	Preset string  `json:"preset"`
	Seed   uint64  `json:"seed"`
	Events []Event `json:"events"`
}

// A NoRecordingError is returned for a preset that does not exist, or a seed that was not recorded.
type NoRecordingError struct {
	Preset string
	Seed   string
}

func (e *NoRecordingError) Error() string {
	if find(e.Preset) == nil {
		var known []string
		for _, p := range presets {
			known = append(known, p.Name)
		}
		return fmt.Sprintf("preset %q does not exist: must be one of %s", e.Preset, strings.Join(known, ", "))
	}
	var known []string
	for _, seed := range seedsOf(e.Preset) {
		known = append(known, strconv.FormatUint(seed, 10))
	}
	return fmt.Sprintf("preset %s was not recorded with seed %q: recorded are %s", e.Preset, e.Seed, strings.Join(known, ", "))
}

// recordingOf returns the recording of a preset with a seed, in JSON. The error is a *NoRecordingError if there is none.
func recordingOf(preset, seed string) ([]byte, error) {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil || find(preset) == nil {
		return nil, &NoRecordingError{preset, seed}
	}
	content, err := recordings.ReadFile(recordingFile(preset, n))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NoRecordingError{preset, seed}
	}
	return content, err
}

func recordingFile(preset string, seed uint64) string {
	return fmt.Sprintf("recordings/%s-%d.json", preset, seed)
}

// seedsOf returns the seeds with which a preset was recorded, in order.
func seedsOf(preset string) (seeds []uint64) {
	files, _ := recordings.ReadDir("recordings") // it exists
	for _, f := range files {
		text, ours := strings.CutPrefix(f.Name(), preset+"-")
		seed, err := strconv.ParseUint(strings.TrimSuffix(text, ".json"), 10, 64)
		if ours && err == nil {
			seeds = append(seeds, seed)
		}
	}
	slices.Sort(seeds)
	return seeds
}
