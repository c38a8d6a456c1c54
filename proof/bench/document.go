// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// schema names the shape of a document. It changes when a field changes its meaning.
const schema = "lockkeeper-bench/1"

// A document has the results of one case.
type document struct {
	Schema  string            `json:"schema"`
	Case    string            `json:"case"`
	Started time.Time         `json:"started"`
	Took    float64           `json:"took"` // seconds
	On      []string          `json:"on"`   // servers and clients, with their versions
	Machine string            `json:"machine"`
	Go      string            `json:"go"`
	Short   bool              `json:"short,omitempty"`
	Trees   map[string]string `json:"trees"`          // Git hashes of the product
	Again   string            `json:"again"`          // command that repeats the measurement
	Left    []string          `json:"left,omitempty"` // out, with the reasons
	Failed  string            `json:"failed,omitempty"`
	Values  []value           `json:"values"`
}

// A value is one number of a library on so many servers, of each round.
type value struct {
	valueKey
	Rounds []float64 `json:"rounds"`
}

type valueKey struct {
	Servers int    `json:"servers"`
	Library string `json:"library"`
	Metric  string `json:"metric"`
}

// keep adds the values of a round.
func (d *document) keep(values map[valueKey]float64) {
	for key, v := range values {
		i := slices.IndexFunc(d.Values, func(other value) bool { return other.valueKey == key })
		if i < 0 {
			i, d.Values = len(d.Values), append(d.Values, value{valueKey: key})
		}
		d.Values[i].Rounds = append(d.Values[i].Rounds, significant(v))
	}
	slices.SortFunc(d.Values, func(a, b value) int {
		return cmp.Or(cmp.Compare(a.Servers, b.Servers), cmp.Compare(a.Library, b.Library), cmp.Compare(a.Metric, b.Metric))
	})
}

// significant rounds to four digits.
func significant(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	unit := math.Pow10(int(math.Floor(math.Log10(math.Abs(v)))) - 3)
	if unit < 1 {
		return math.Round(v*math.Round(1/unit)) / math.Round(1/unit)
	}
	return math.Round(v/unit) * unit
}

// of returns the rounds of a value.
func (d *document) of(key valueKey) []float64 {
	for _, v := range d.Values {
		if v.valueKey == key {
			return slices.Clone(v.Rounds)
		}
	}
	return nil
}

// write writes the document into a folder.
func (d *document) write(dir string) error {
	text, err := json.MarshalIndent(d, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, d.Case+".json"), append(text, '\n'), 0o644)
}

// Documents are the documents of a folder, by case.
type documents map[string]*document

func readDocuments(dir string) (documents, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no document of a case", dir)
	}
	all := documents{}
	for _, file := range files {
		d := &document{}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, d)
		}
		if err == nil && d.Schema != schema {
			err = fmt.Errorf("schema %q, want %q", d.Schema, schema)
		}
		if err != nil {
			return nil, fmt.Errorf("document %s: %w", file, err)
		}
		all[d.Case] = d
	}
	return all, err
}

// extreme returns the least or the greatest of the rounds, of which there is one.
func (ds documents) extreme(name string, servers int, library, metric string, least bool) float64 {
	rounds := ds[name].of(valueKey{servers, library, metric})
	if least {
		return slices.Min(rounds)
	}
	return slices.Max(rounds)
}

// median returns the median of the rounds, and reports whether there is one.
func (ds documents) median(name string, servers int, library, metric string) (float64, bool) {
	d := ds[name]
	if d == nil {
		return 0, false
	}
	rounds := d.of(valueKey{servers, library, metric})
	return median(rounds), len(rounds) > 0
}
