// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed page.md.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"show": show, "grouped": grouped}).Parse(pageText))

// writePage makes the page about the documents in docs/performance, and its pictures.
func writePage(docs string) error {
	all, err := readDocuments(filepath.Join(docs, "performance"))
	if err != nil {
		return err
	}
	page, err := all.page()
	if err != nil {
		return err
	}
	pictures, err := all.pictures()
	if err != nil {
		return err
	}
	for name, picture := range pictures {
		if err := os.WriteFile(filepath.Join(docs, "images", name), picture, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(docs, "performance.md"), []byte(page), 0o644)
}

func (ds documents) page() (string, error) {
	var b strings.Builder
	if err := pageTemplate.Execute(&b, ds); err != nil {
		return "", fmt.Errorf("page: %w", err)
	}
	return cellPadding.ReplaceAllString(b.String(), "|"), nil
}

// cellPadding matches what surrounds the cells of tables in the template.
var cellPadding = regexp.MustCompile(` *\| *`)

// The methods below are for the template.

// libraries returns those with which ours is compared, which were measured, ours first.
func (ds documents) libraries() (measured []string) {
	for _, l := range everyOne[1:] {
		for _, c := range cases {
			if _, found := ds.median(c.name, c.servers[0], l.name, "rate"); found {
				measured = append(measured, l.name)
				break
			}
		}
	}
	return measured
}

func (ds documents) Libraries() []string { return ds.libraries() }
func (ds documents) Crowds() []int       { return crowds }

// Cell returns the medians of a value on each ensemble, separated by slashes. Most and Least return the greatest and the least one
// of all rounds.
func (ds documents) Cell(name, library, metric string) string {
	return ds.cell(name, library, metric, func(_ int, median float64) float64 { return median })
}

func (ds documents) Most(name, library, metric string) string {
	return ds.cell(name, library, metric, func(servers int, _ float64) float64 { return ds.extreme(name, servers, library, metric, false) })
}

func (ds documents) Least(name, library, metric string) string {
	return ds.cell(name, library, metric, func(servers int, _ float64) float64 { return ds.extreme(name, servers, library, metric, true) })
}

func (ds documents) cell(name, library, metric string, of func(servers int, median float64) float64) string {
	var cells []string
	for _, servers := range []int{1, 3, 5} {
		if v, found := ds.median(name, servers, library, metric); found {
			cells = append(cells, show(of(servers, v)))
		}
	}
	if cells == nil {
		return "–"
	}
	return strings.Join(cells, "/")
}

// Crowd returns the median of a value with so many waiters.
func (ds documents) Crowd(n int, library, metric string) string {
	return ds.Cell(fmt.Sprintf("waiters-%d", n), library, metric)
}

// A row of a table is about a case, or a metric.
type row struct{ About, Case string }

func (ds documents) Compared() []row {
	return []row{
		{"one free lock", uncontended.name},
		{"64 locks, one session", oneSession.name},
		{"8 sessions, one lock", handOff8.name},
		{"32 sessions, one lock", handOff32.name},
	}
}

func (ds documents) Waiting() (rows []row) {
	for _, kind := range []struct{ about, metrics string }{{", own sessions", inSessions}, {", one client", inOne}} {
		for _, metric := range []row{
			{"join, bytes", "join bytes"}, {"hand-off, bytes", "hand-off bytes"}, {"hand-off, ms", "hand-off p50 ms"}, {"waiter, kB", "heap of a waiter kB"},
		} {
			rows = append(rows, row{metric.About + kind.about, kind.metrics + metric.Case})
		}
	}
	return rows
}

func (ds documents) Everyone() []string { return append([]string{bare}, ds.libraries()...) }
func (ds documents) Callers() []string  { return []string{"1 caller", "50 callers", "500 callers"} }

// A missed is a budget that is not met on one of its ensembles.
type missed struct{ What, Measured, Limit string }

func (ds documents) Missed() (all []missed) {
	outcomes := ds.Outcomes()
	for i, o := range outcomes {
		next := i + 1
		switch {
		case i > 0 && outcomes[i-1].what == o.what: // the row above has it
		case next < len(outcomes) && outcomes[next].what == o.what && (!o.met || !outcomes[next].met):
			all = append(all, missed{o.what, o.Measured() + "/" + outcomes[next].Measured(), o.Limit()})
		case !o.met:
			all = append(all, missed{o.what, o.Measured(), o.Limit()})
		}
	}
	return all
}

// Met is the number of budgets that are met.
func (ds documents) Met() (n int) {
	for _, o := range ds.Outcomes() {
		if o.met {
			n++
		}
	}
	return n
}

// cases returns the documents in the order of the table.
func (ds documents) cases() (measured []*document) {
	for _, c := range cases {
		if ds[c.name] != nil {
			measured = append(measured, ds[c.name])
		}
	}
	return measured
}

// Outcomes returns all budgets with what was measured.
func (ds documents) Outcomes() []outcome {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return outcomes(ds, names)
}

// distinct returns the different texts that the documents have.
func (ds documents) distinct(of func(d *document) []string) string {
	var all []string
	for _, d := range ds.cases() {
		for _, text := range of(d) {
			if text != "" && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return strings.Join(all, "; ")
}

// On, Machine, Dates and Left say how the documents came about.
func (ds documents) On() string { return ds.distinct(func(d *document) []string { return d.On }) }

func (ds documents) Machine() string {
	return ds.distinct(func(d *document) []string { return []string{d.Machine + ", " + d.Go} })
}

func (ds documents) Dates() string {
	return ds.distinct(func(d *document) []string { return []string{d.Started.Format("2006-01-02")} })
}

func (ds documents) Left() string { return ds.distinct(func(d *document) []string { return d.Left }) }

// Mixed returns how many different products the documents measured, 0 if it is one.
func (ds documents) Mixed() int {
	products := map[string]bool{}
	for _, d := range ds {
		products[fmt.Sprint(d.Trees)] = true
	}
	if len(products) == 1 {
		return 0
	}
	return len(products)
}

// Short reports whether a document is of a short run.
func (ds documents) Short() bool {
	return slices.ContainsFunc(ds.cases(), func(d *document) bool { return d.Short })
}

// A growth is the calculated cost of so many clients.
type growth struct {
	Clients          int
	Holders, Waiters float64 // writes a second
	HandOff          float64 // bytes
	Joins            float64 // bytes of all, one after the other
}

// Growth returns the costs of ever more clients.
func (ds documents) Growth() (all []growth) {
	handOff, join := ds.fit(inSessions+"hand-off bytes"), ds.fit(inSessions+"join bytes")
	for _, n := range growths {
		all = append(all, growth{n, ds.writesOfHolders(n), ds.writesOfWaiters(n), handOff.at(n), float64(n) * join.at(n)})
	}
	return all
}

// HandOff and Join are the formulas of bytes.
func (ds documents) HandOff() string { return ds.fit(inSessions + "hand-off bytes").String() }
func (ds documents) Join() string    { return ds.fit(inSessions + "join bytes").String() }

func (l linear) String() string {
	if l.each < 0.005 {
		return show(l.fixed)
	}
	return fmt.Sprintf("%s + %s n", show(l.fixed), show(l.each))
}

// Capacity is the number of writes that an ensemble carried out.
func (ds documents) Capacity(servers int) string { return grouped(int(ds.capacity(servers))) }
