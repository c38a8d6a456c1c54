// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A property is one promise of a guard, named by a sentence, and the check of it.
type property struct {
	name  string
	needs needs
	check func(p *probe)
}

var properties = slices.Concat([]property{
	{name: "an equal token is admitted", check: equalIsAdmitted},
	{name: "an older token is refused with both tokens and the resource is unchanged", check: olderIsRefused},
	{name: "a newer token is admitted and shuts out the one before", check: newerIsAdmitted},
	{name: "a newer token with an unchanged value shuts out the one before", check: unchangedValueRaises},
	{name: "an empty value is a value and keeps the fence", check: emptyValueKeepsTheFence},
	{name: "tokens are compared as numbers with all their digits", check: allDigitsCount},
	{name: "zero and negative tokens are refused as invalid", check: invalidIsRefused},
	{name: "a stale write of the stored value is refused", check: staleWriteOfStoredValueIsRefused},
	{name: "resources are independent however alike their names", check: resourcesAreIndependent},
	{name: "no fence is forgotten for fences of other resources", check: manyFencesAreKept},
	{name: "a name that is empty, too long, not UTF-8 or has NUL is an error about the resource", check: invalidNamesAreErrors},
	{name: "a value over the stated limit is an error and changes nothing", needs: needs{maxValue: true}, check: longValuesAreErrors},
	{name: "a context that is done is an error and changes nothing", check: doneContextChangesNothing},
	{name: "a write whose context ends midway does not overwrite a newer one", check: interruptedWriteHasEnded},
	{
		name:  "a reset opens one resource to lower tokens and the guard refuses again immediately",
		needs: needs{resets: true}, check: resetAdmitsLowerTokens,
	},
	{name: "only a reset admits an older token", check: onlyResetAdmitsOlderTokens},
	{name: "of two writers racing the newer wins", check: newerWinsTheRace},
	{name: "of two writers racing with one value the newer wins", check: newerWinsTheRaceWithOneValue},
	{name: "the newest token survives a restart", needs: needs{restarts: true}, check: newestSurvivesRestart},
	{name: "a reset survives a restart", needs: needs{restarts: true, resets: true}, check: resetSurvivesRestart},
	{
		name:  "a crash between check and write admits no older token later",
		needs: needs{restarts: true, crashes: true}, check: crashAdmitsNoOlderToken,
	},
	{
		name:  "a crash at the first write leaves a usable guard",
		needs: needs{restarts: true, crashes: true}, check: firstWriteMayCrash,
	},
}, historyProperties)

func equalIsAdmitted(p *probe) {
	p.holds("ledger", "")
	p.admits("ledger", 7, "one")
	p.admits("ledger", 7, "two")
	p.admits("ledger", 7, "two")
	p.refuses("ledger", 6, 7)
}

func olderIsRefused(p *probe) {
	p.admits("ledger", 12, "newest")
	p.refuses("ledger", 11, 12)
	p.refuses("ledger", 1, 12)
	p.admits("ledger", 12, "newest still")
}

func newerIsAdmitted(p *probe) {
	p.admits("ledger", 3, "three")
	p.admits("ledger", 4, "four")
	p.refuses("ledger", 3, 4)
	p.admits("ledger", 4294967311, "far on")
	p.refuses("ledger", 4, 4294967311)
}

// A guard that skips the write of an unchanged value also skips the raise of its token.
func unchangedValueRaises(p *probe) {
	p.admits("ledger", 3, "same")
	p.admits("ledger", 4, "same")
	p.refuses("ledger", 3, 4)
	if !p.subject.Volatile {
		p.restart()
		p.refuses("ledger", 3, 4)
	}
	p.admits("ledger", 9, "same")
	p.refuses("ledger", 8, 9)
}

func emptyValueKeepsTheFence(p *probe) {
	if p.subject.NoEmptyValue {
		p.admits("ledger", 7, "seven")
		p.rejects("ledger", 7, "")
		p.refuses("ledger", 6, 7)
		return
	}
	p.admits("ledger", 7, "")
	p.refuses("ledger", 6, 7)
	p.admits("ledger", 8, "eight")
	p.admits("ledger", 9, "")
	p.refuses("ledger", 8, 9)
	if !p.subject.Volatile {
		p.restart()
		p.holds("ledger", "")
		p.refuses("ledger", 8, 9)
	}
	p.admits("ledger", 9, "nine")
}

func allDigitsCount(p *probe) {
	p.admits("text", 9, "nine")
	p.admits("text", 10, "ten") // as text, 10 precedes 9
	p.refuses("text", 9, 10)
	p.admits("float", 1<<53+1, "odd") // as floating point, both are the same
	p.refuses("float", 1<<53, 1<<53+1)
	p.admits("word", 1<<32, "33 bits") // truncated to 32 bits, it is zero
	p.refuses("word", 1<<32-1, 1<<32)
	p.admits("word", math.MaxInt64, "the last")
	p.refuses("word", math.MaxInt64-1, math.MaxInt64)
}

// A guard that takes the write for a repeat, which has nothing to do, lets the former holder believe that it still holds.
func staleWriteOfStoredValueIsRefused(p *probe) {
	p.admits("ledger", 5, "same")
	p.admits("ledger", 9, "same")
	for range 2 {
		p.stale(p.Write(p.t.Context(), "ledger", 5, "same"), 5, 9)
	}
	p.admits("ledger", 9, "same")
}

func invalidIsRefused(p *probe) {
	invalid := []fencing.Token{0, -1, math.MinInt64}
	for _, token := range invalid {
		p.fails(p.t.Context(), token, fencing.ErrInvalid)
	}
	p.admits("ledger", 1, "first")
	for _, token := range invalid {
		p.fails(p.t.Context(), token, fencing.ErrInvalid)
	}
	p.admits("ledger", 1, "first again")
}

// alike returns names that a store may confuse. They differ in case, or in characters that a collation or a file system
// treats as equal, or they look like a path, a pattern or an escape sequence, or an encoding may map them to one character.
func alike(longest int) []string {
	names := []string{
		"ledger", "Ledger", "ledger ", " ledger", "ledger/", "ledger/1", "ledger_1", "ledger%2F1", "ledger.lock",
		"../ledger", ".", "..", "'ledger'", "ledgér", "ledge\u0301r", strings.Repeat("l", longest-1), strings.Repeat("l", longest),
	}
	for char := ' '; char <= '~'; char++ {
		if unicode.IsPunct(char) || unicode.IsSymbol(char) || unicode.IsSpace(char) {
			if name := "ledger" + string(char) + "1"; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func resourcesAreIndependent(p *probe) {
	names := alike(p.subject.MaxName)
	values := make([]string, len(names))
	// The tokens decrease: a fence that two names share refuses the second.
	for i, name := range names {
		values[i] = name
		if len(name) > p.subject.MaxValue {
			values[i] = fmt.Sprintf("value %d", i)
		}
		p.holds(name, "")
		p.admits(name, fencing.Token(2*len(names)-i), values[i])
	}
	for i, name := range names {
		newest := fencing.Token(2*len(names) - i)
		p.holds(name, values[i])
		p.refuses(name, newest-1, newest)
	}
}

// many is a number of resources that exceeds the size of a small cache, and few enough for a guard that syncs a disk.
const many = 200

func manyFencesAreKept(p *probe) {
	name := func(i int) string { return fmt.Sprintf("ledger %d", i) }
	for i := range many {
		if err := p.Write(p.t.Context(), name(i), 7, "seven"); err != nil {
			p.t.Fatalf("write %q with token 7: %v, want it admitted", name(i), err)
		}
	}
	for i := 0; i < many; i += many / 20 {
		p.refuses(name(i), 6, 7)
	}
}

func invalidNamesAreErrors(p *probe) {
	ctx := p.t.Context()
	for _, name := range []string{"", strings.Repeat("l", p.subject.MaxName+1), "led\x00ger", "\x00", "ledg\xe9r"} {
		_, valueErr := p.Value(ctx, name)
		failures := map[string]error{"write": p.Write(ctx, name, 7, "unwanted"), "value": valueErr}
		if !p.subject.NoReset {
			failures["reset"] = p.Reset(ctx, name)
		}
		for operation, err := range failures {
			if err == nil {
				p.t.Fatalf("%s of resource %.20q: no error", operation, name)
			}
			// The text is for a person: if it does not name the resource, the reader would suspect the token.
			if !strings.Contains(err.Error(), "resource") {
				p.t.Fatalf("%s of resource %.20q: error %q does not name the resource", operation, name, err)
			}
		}
	}
	p.admits("ledger", 1, "as before")
}

func longValuesAreErrors(p *probe) {
	longest := strings.Repeat("v", p.subject.MaxValue)
	p.admits("ledger", 7, longest)
	p.rejects("ledger", 7, longest+"v")
	p.rejects("ledger", 9, longest+"v")
	p.refuses("ledger", 6, 7)
}

func doneContextChangesNothing(p *probe) {
	done, cancel := context.WithCancel(p.t.Context())
	cancel()
	p.fails(done, 9, context.Canceled)
	p.admits("ledger", 5, "five") // 9 was never admitted
	p.fails(done, 9, context.Canceled)
	p.admits("ledger", 6, "six")
	if !p.subject.NoReset && p.Reset(done, "ledger") == nil {
		p.t.Fatal("reset with a context that is done: no error")
	}
	p.refuses("ledger", 5, 6)
}

func resetAdmitsLowerTokens(p *probe) {
	p.admits("ledger", 1<<40, "before")
	p.admits("other", 1<<40, "other")
	p.refuses("ledger", 3, 1<<40)
	p.resets("ledger")
	p.admits("ledger", 3, "after")
	p.refuses("ledger", 2, 3)
	p.refuses("other", 3, 1<<40)
	p.resets("never written")
	p.admits("never written", 1, "now it is")
}

func onlyResetAdmitsOlderTokens(p *probe) {
	p.admits("ledger", 50, "fifty")
	for _, token := range []fencing.Token{49, 0, 1, -50, 49, math.MinInt64, 2} {
		if p.Write(p.t.Context(), "ledger", token, "stale") == nil {
			p.t.Fatalf("write with token %d after 50: no error", token)
		}
		p.refuses("ledger", 49, 50)
		if !p.subject.Volatile {
			p.restart()
			p.refuses("ledger", 49, 50)
		}
	}
	p.admits("ledger", 50, "fifty still")
}

func newestSurvivesRestart(p *probe) {
	p.admits("ledger", 7, "seven")
	p.restart()
	p.holds("ledger", "seven")
	p.refuses("ledger", 6, 7)
	p.admits("ledger", 7, "seven again")
	p.admits("ledger", 12, "twelve")
	p.restart()
	p.refuses("ledger", 7, 12)
	p.refuses("ledger", 11, 12)
	p.admits("ledger", 12, "twelve again")
}

func resetSurvivesRestart(p *probe) {
	p.admits("ledger", 1<<40, "before")
	p.resets("ledger")
	p.restart()
	p.admits("ledger", 3, "after")
	p.restart()
	p.refuses("ledger", 2, 3)
}

// A crash may leave its token admitted or not. Both are correct, as long as the new value is stored only together with its
// token.
func crashAdmitsNoOlderToken(p *probe) {
	p.admits("ledger", 5, "five")
	p.subject.Crash(p.t, p.Guarded, "ledger", 9, "nine")
	p.restart()
	switch value := p.value("ledger"); value {
	case "five":
	case "nine":
		p.refuses("ledger", 8, 9)
	default:
		p.t.Fatalf("value after the crash is %q, want the old value or the one that was being written", value)
	}
	if err := p.Write(p.t.Context(), "ledger", 4, "stale"); err == nil {
		p.t.Fatal("write with token 4 after 5 and a crash: no error")
	}
	p.admits("ledger", 9, "nine, sent again")
	p.restart()
	p.refuses("ledger", 5, 9)
	p.refuses("ledger", 8, 9)
}

func firstWriteMayCrash(p *probe) {
	p.subject.Crash(p.t, p.Guarded, "ledger", 9, "nine")
	p.restart()
	if p.value("ledger") == "nine" {
		p.refuses("ledger", 8, 9)
	}
	p.admits("ledger", 9, "nine, sent again")
	p.refuses("ledger", 8, 9)
}
