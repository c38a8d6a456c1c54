// SPDX-License-Identifier: Apache-2.0

package fencetest_test

// A fault is the defect of a store.
type fault string

const (
	right            fault = ""
	swapped          fault = "< in place of <="
	acceptsOlder     fault = "accepts older"
	equality         fault = "compares for equality"
	losesTokens      fault = "loses the tokens on reopen"
	neverRises       fault = "stores the first token only"
	oneFence         fault = "shares one fence among all resources"
	foldsCase        fault = "folds case"
	writesFirst      fault = "writes before it checks"
	checksOutside    fault = "checks outside of the lock"
	asFloat          fault = "stores tokens as floating point"
	asText           fault = "compares tokens as text"
	admitsInvalid    fault = "admits invalid tokens"
	staleInvalid     fault = "reports invalid tokens as stale"
	bareStale        fault = "refuses without naming the tokens"
	ignoresContext   fault = "ignores the context"
	anyName          fault = "accepts any name"
	noReset          fault = "ignores a reset"
	resetsAll        fault = "resets all resources"
	raisesLast       fault = "crashes after the write and before the raise"
	refusalLowers    fault = "stores a refused token as the newest"
	leavesTornOnFail fault = "leaves half a value after a crash"
	skipsUnchanged   fault = "does not write an unchanged value"
	emptyDeletes     fault = "deletes the fence when the value is empty"
	continues        fault = "continues to write after its context ended"
	continuesLocked  fault = "reports that nothing was written, and then writes"
	locksTwice       fault = "locks the check and the write separately"
	truncatesValues  fault = "truncates long values"
	acceptsEmpty     fault = "accepts empty values and declares that it does not"
	comparesContent  fault = "compares the content in place of the token"
	keeps64          fault = "keeps the last 64 fences"
	sameIsDone       fault = "returns nil to a stale writer of the stored value"
	mapsColon        fault = "maps a colon to an underscore"
	expires          fault = "lets a fence expire"

	ignoresHistory    fault = "ignores histories"
	otherIsStale      fault = "reports tokens of another history as stale"
	newerIsAnyHistory fault = "admits newer tokens of any history"
	adoptsNewerOnly   fault = "adopts a history only with a newer token"
	adoptsRefused     fault = "adopts the history of a refused token"
	clearsHistory     fault = "clears the history at a write without one"
	oneHistory        fault = "shares one history among all resources"
	keepsHistory      fault = "keeps the history at a reset"
	adoptsOutside     fault = "adopts a history outside of the lock"
	losesHistory      fault = "loses the history on reopen"
)

// caught maps each fault to the property that detects it.
var caught = map[fault]string{
	swapped:          "an equal token is admitted",
	acceptsOlder:     "an older token is refused with both tokens and the resource is unchanged",
	equality:         "a newer token is admitted and shuts out the one before",
	losesTokens:      "the newest token survives a restart",
	neverRises:       "a newer token is admitted and shuts out the one before",
	oneFence:         "resources are independent however alike their names",
	foldsCase:        "resources are independent however alike their names",
	writesFirst:      "an older token is refused with both tokens and the resource is unchanged",
	checksOutside:    "of two writers racing the newer wins",
	asFloat:          "tokens are compared as numbers with all their digits",
	asText:           "tokens are compared as numbers with all their digits",
	admitsInvalid:    "zero and negative tokens are refused as invalid",
	staleInvalid:     "zero and negative tokens are refused as invalid",
	bareStale:        "an older token is refused with both tokens and the resource is unchanged",
	ignoresContext:   "a context that is done is an error and changes nothing",
	anyName:          "a name that is empty, too long, not UTF-8 or has NUL is an error about the resource",
	noReset:          "a reset opens one resource to lower tokens and the guard refuses again immediately",
	resetsAll:        "a reset opens one resource to lower tokens and the guard refuses again immediately",
	raisesLast:       "a crash between check and write admits no older token later",
	refusalLowers:    "only a reset admits an older token",
	leavesTornOnFail: "a crash between check and write admits no older token later",
	skipsUnchanged:   "a newer token with an unchanged value shuts out the one before",
	emptyDeletes:     "an empty value is a value and keeps the fence",
	continues:        "a write whose context ends midway does not overwrite a newer one",
	continuesLocked:  "a write whose context ends midway does not overwrite a newer one",
	locksTwice:       "of two writers racing the newer wins",
	truncatesValues:  "a value over the stated limit is an error and changes nothing",
	acceptsEmpty:     "an empty value is a value and keeps the fence",
	comparesContent:  "of two writers racing with one value the newer wins",
	keeps64:          "no fence is forgotten for fences of other resources",
	sameIsDone:       "a stale write of the stored value is refused",
	mapsColon:        "resources are independent however alike their names",
	expires:          "a fence does not expire while the suite runs",

	ignoresHistory:    "a token of another history is refused with both histories whatever its number",
	otherIsStale:      "a token of another history is refused with both histories whatever its number",
	newerIsAnyHistory: "a token of another history is refused with both histories whatever its number",
	adoptsNewerOnly:   "a fence without a history adopts the history of the next admitted token",
	adoptsRefused:     "a fence without a history adopts the history of the next admitted token",
	clearsHistory:     "a guard without a history neither checks nor changes the stored one",
	oneHistory:        "histories of two resources are independent",
	keepsHistory:      "a reset opens one resource to the history of the guard that resets",
	adoptsOutside:     "of two histories racing for one resource one wins",
	losesHistory:      "a history survives a restart",
}
