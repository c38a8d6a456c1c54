// SPDX-License-Identifier: Apache-2.0

package protocol

// A Mode is what a contender claims, as package recipes documents it. Its exported methods would be
// part of the API of recipes, which has none for it.
type Mode uint8

const (
	Exclusive Mode = iota // excludes every other claim
	Write                 // the same, for a contender of a read/write lock
	Read                  // excludes the claims of the other modes
)

// ValidMode reports whether the mode is one of the constants.
func ValidMode(m Mode) bool { return m <= Read }

// conflicts reports whether claims of the two modes exclude each other.
func (m Mode) conflicts(other Mode) bool { return m != Read || other != Read }

// separator stands between the contender's part of a name and the number that the server appends.
func (m Mode) separator() string {
	switch m {
	case Write:
		return "-__WRIT__"
	case Read:
		return "-__READ__"
	}
	return "-lock-"
}

// separators are what names of contenders have before the number: this package's, Curator
// and zk.Lock; Kazoo's locks; read/write locks of this package and Curator.
var separators = []struct {
	text string
	mode Mode
}{
	{"lock-", Exclusive},
	{"__lock__", Exclusive},
	{"__WRIT__", Write},
	{"__READ__", Read},
}
