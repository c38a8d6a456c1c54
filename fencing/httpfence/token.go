// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lockkeeper/lockkeeper/fencing"
)

const (
	// Header is the name of the header that carries the token, in the form that [fencing.Token.String] writes.
	Header = "Fencing-Token"

	// HistoryHeader is the name of the header that carries the id of the history in which the token was granted.
	HistoryHeader = "Fencing-History"
)

// errMissing is for a request without the header.
var errMissing = errors.New("the request has no " + Header + " header")

// parse returns the token in header. Several tokens are an error, even if they are equal: a server that checks the first and
// one that checks the last could disagree.
func parse(header http.Header) (fencing.Token, error) {
	switch values := header.Values(Header); len(values) {
	case 0:
		return 0, errMissing
	case 1:
		return fencing.ParseToken(values[0])
	default:
		return 0, fmt.Errorf("%d %s headers: %w", len(values), Header, fencing.ErrInvalid)
	}
}

// parseHistory returns the history id in header, or the empty string if there is none.
func parseHistory(header http.Header) (string, error) {
	switch values := header.Values(HistoryHeader); len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], fencing.CheckHistory(values[0])
	default:
		return "", fmt.Errorf("the request has %d %s headers", len(values), HistoryHeader)
	}
}
