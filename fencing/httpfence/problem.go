// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/lockkeeper/lockkeeper/fencing"
)

const (
	// StaleType is the type of the problem document that refuses a stale token. Clients recognise the refusal by it.
	StaleType = "https://pkg.go.dev/github.com/lockkeeper/lockkeeper/fencing/httpfence#StaleType"

	// HistoryType is the type of the problem document that refuses a token of another history.
	HistoryType = "https://pkg.go.dev/github.com/lockkeeper/lockkeeper/fencing/httpfence#HistoryType"

	problemType = "application/problem+json"
	staleTitle  = "Stale fencing token"

	historyTitle = "Fencing token of another history"
)

// A problem is the body of a refusal, a problem document of RFC 9457. Tokens are strings in it, because readers that
// represent numbers as floating point lose digits.
type problem struct {
	Type   string        `json:"type,omitempty"` // empty means about:blank: the status is the whole meaning
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail,omitempty"`
	Token  fencing.Token `json:"token,omitzero"`
	Newest fencing.Token `json:"newest,omitzero"`

	History string `json:"history,omitempty"` // of the token
	Stored  string `json:"stored,omitempty"`  // by the guard
}

// Refuse answers a request if err is the refusal of its token, and reports whether it did. It answers 409 for a
// [*fencing.StaleError] or a [*fencing.HistoryError], and also for another error that is [fencing.ErrStale] or
// [fencing.ErrOtherHistory], then without tokens and histories. It answers 400 for [fencing.ErrInvalid]. For other errors,
// and for nil, it writes nothing and returns false: false is therefore not success, and the handler must examine err itself.
// Refuse is for handlers whose store decides: nothing may have been written to w before. It drops the headers that describe
// another body, Content-Length and Content-Encoding.
func Refuse(w http.ResponseWriter, err error) bool {
	var stale *fencing.StaleError
	var other *fencing.HistoryError
	switch {
	case errors.As(err, &other):
		write(w, problem{
			Type: HistoryType, Title: historyTitle, Status: http.StatusConflict,
			Detail: other.Error(), Token: other.Token, History: other.Given, Stored: other.Stored,
		})
	case errors.Is(err, fencing.ErrOtherHistory):
		write(w, problem{Type: HistoryType, Title: historyTitle, Status: http.StatusConflict})
	case errors.As(err, &stale):
		write(w, problem{
			Type: StaleType, Title: staleTitle, Status: http.StatusConflict,
			Detail: stale.Error(), Token: stale.Token, Newest: stale.Newest,
		})
	case errors.Is(err, fencing.ErrStale):
		write(w, problem{Type: StaleType, Title: staleTitle, Status: http.StatusConflict})
	case errors.Is(err, fencing.ErrInvalid):
		write(w, problem{
			Title: "Invalid fencing token", Status: http.StatusBadRequest,
			Detail: Header + ": " + fencing.ErrInvalid.Error(),
		})
	default:
		return false
	}
	return true
}

func write(w http.ResponseWriter, p problem) {
	// The handler may have set these for the body that it meant to write. A client could not read this one with them, and
	// its holder would not be notified.
	w.Header().Del("Content-Length")
	w.Header().Del("Content-Encoding")
	body, err := json.Marshal(p)
	if err != nil { // the guard returned invalid tokens
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
