// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/metadata"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// The metadata keys of a call.
const (
	TokenKey   = "fencing-token"   // the token, as [fencing.Token.String] writes it
	HistoryKey = "fencing-history" // the id of the history in which the token was granted; optional
)

// errMissing is the error of a call without a token.
var errMissing = errors.New("the call has no " + TokenKey + " metadata")

// errHistory is the error of a call whose history metadata is not exactly one history id.
var errHistory = errors.New("the metadata " + HistoryKey + " is not one history id")

// parse returns the token and the history in md. Several values of one key are an error, even if they are equal: a server
// that checks the first and a store that checks the last could disagree.
func parse(md metadata.MD) (token fencing.Token, history string, err error) {
	switch values := md.Get(TokenKey); len(values) {
	case 0:
		return 0, "", errMissing
	case 1:
		token, err = fencing.ParseToken(values[0])
	default:
		err = fmt.Errorf("%d values of %s: %w", len(values), TokenKey, fencing.ErrInvalid)
	}
	if err != nil {
		return 0, "", err
	}
	switch values := md.Get(HistoryKey); len(values) {
	case 0:
	case 1:
		history = values[0]
		if err := fencing.CheckHistory(history); err != nil {
			return 0, "", fmt.Errorf("%w: %w", errHistory, err)
		}
	default:
		return 0, "", fmt.Errorf("%w: it has %d values", errHistory, len(values))
	}
	return token, history, nil
}
