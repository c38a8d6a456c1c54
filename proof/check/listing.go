// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// TrueListing: a listing of a group names each member once, and exactly those whose nodes existed at its revision, in the
// ensemble's commit order. The revisions that one contender gets do not fall. Nothing is excused.
var TrueListing = register(definition{
	name:    "true-listing",
	meaning: "a listing of a group names each member once, and exactly those that existed at its revision",
	counts:  "listings of a group",
	judge:   trueListings,
	tests:   perEvent(history.Listed),
})

func trueListings(t *timeline, found report) {
	newest := map[string]history.Event{} // by contender and path
	for _, e := range t.of(history.Listed) {
		want := t.membersAt(e.Path, e.Zxid)
		if ids := slices.Sorted(strings.FieldsSeq(e.Text)); !slices.Equal(ids, want) {
			found(fmt.Sprintf("listed %v where the members were %v", ids, want), e)
		}
		key := e.Contender + " " + e.Path
		if last := newest[key]; e.Zxid != 0 && e.Zxid < last.Zxid {
			found("an older listing follows a newer one", last, e)
		}
		newest[key] = e
	}
}

// membersAt returns the ids of a group's members after the transaction with that zxid, sorted.
func (t *timeline) membersAt(group string, zxid history.ID) (ids []string) {
	for _, n := range t.children[group] {
		if n.created.Zxid <= zxid && (n.deleted.Kind == "" || n.deleted.Zxid > zxid) {
			ids = append(ids, path.Base(n.created.Node))
		}
	}
	slices.Sort(ids)
	return ids
}
