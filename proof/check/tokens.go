// SPDX-License-Identifier: Apache-2.0

package check

// RisingTokens: the tokens of a path, or of one number of its slots, rise from grant to grant. Tokens of readers only rise from writer to reader and from
// reader to writer. A grant that was recorded after its node was gone, and is excused for that, is not checked.
var RisingTokens = register(definition{
	name:    "rising-tokens",
	meaning: "tokens rise from grant to grant",
	counts:  "grants that follow another of the same path or number",
	judge:   risingTokens,
	tests:   perHold(func(_ *timeline, h *hold) bool { return h.index > 0 }),
})

func risingTokens(t *timeline, found report) {
	writers, readers := map[string]*hold{}, map[string]*hold{} // by resource: those with the greatest tokens so far
	for _, h := range t.holds {
		if why, _ := h.excuse(); h.grantedAfterDeletion() && why != notExcused {
			continue
		}
		of, same := h.resource(), writers
		earlier := []*hold{writers[of]}
		if h.granted.Shared {
			same = readers
		} else {
			earlier = append(earlier, readers[of])
		}
		for _, before := range earlier {
			if before != nil && h.granted.Token <= before.granted.Token {
				found("the token is not greater than the token of the previous grant", before.granted, h.granted)
			}
		}
		if same[of] == nil || !h.granted.Shared || h.granted.Token > same[of].granted.Token {
			same[of] = h
		}
	}
}
