// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// A Code names a refusal. Codes are part of the API: a client decides by them.
type Code string

// The codes.
const (
	Malformed        Code = "MALFORMED_REQUEST"
	Unauthenticated  Code = "UNAUTHENTICATED"
	Forbidden        Code = "FORBIDDEN"
	NotLockOwner     Code = "NOT_LOCK_OWNER"
	RouteNotFound    Code = "ROUTE_NOT_FOUND"
	LockNotFound     Code = "LOCK_NOT_FOUND"
	MethodNotAllowed Code = "METHOD_NOT_ALLOWED"
	BodyTimeout      Code = "BODY_TIMEOUT"
	LockAlreadyHeld  Code = "LOCK_ALREADY_HELD"
	Superseded       Code = "REQUEST_SUPERSEDED"
	CannotNotify     Code = "HOLDER_CANNOT_BE_NOTIFIED"
	HolderChanged    Code = "HOLDER_CHANGED"
	LockExpired      Code = "LOCK_EXPIRED"
	LockReleased     Code = "LOCK_RELEASED"
	LockRevoked      Code = "LOCK_REVOKED"
	LeaseExhausted   Code = "LEASE_EXHAUSTED"
	BodyTooLarge     Code = "BODY_TOO_LARGE"
	UnsupportedMedia Code = "UNSUPPORTED_MEDIA_TYPE"
	Invalid          Code = "INVALID_REQUEST"
	Mismatch         Code = "REQUEST_MISMATCH"
	TooManyRequests  Code = "TOO_MANY_REQUESTS"
	TooManyWaiters   Code = "TOO_MANY_WAITERS"
	TooManyKeys      Code = "TOO_MANY_KEYS"
	CallerGone       Code = "CALLER_GONE" // in log, metrics and audit: no caller reads it
	Internal         Code = "INTERNAL_ERROR"
	NotRecorded      Code = "ACTION_NOT_RECORDED"
	Unavailable      Code = "UNAVAILABLE"
)

// A kind is what all problems of one code have in common.
type kind struct {
	status int
	title  string
}

var kinds = map[Code]kind{
	Malformed:        {http.StatusBadRequest, "The request cannot be read"},
	Unauthenticated:  {http.StatusUnauthorized, "The request has no valid credentials"},
	Forbidden:        {http.StatusForbidden, "The principal may not do this"},
	NotLockOwner:     {http.StatusForbidden, "The lock token is not valid for this owner and lock"},
	RouteNotFound:    {http.StatusNotFound, "There is no such resource"},
	LockNotFound:     {http.StatusNotFound, "The lock has no holder"},
	MethodNotAllowed: {http.StatusMethodNotAllowed, "The resource does not allow this method"},
	BodyTimeout:      {http.StatusRequestTimeout, "The body did not arrive in time"},
	LockAlreadyHeld:  {http.StatusConflict, "Another holder has the lock"},
	Superseded:       {http.StatusConflict, "A newer call serves the same requestId"},
	CannotNotify:     {http.StatusConflict, "The holder cannot be notified"},
	HolderChanged:    {http.StatusConflict, "Another contender than the named one has the lock"},
	LockExpired:      {http.StatusGone, "The lease has ended"},
	LockReleased:     {http.StatusGone, "The lease was released"},
	LockRevoked:      {http.StatusGone, "An administrator has revoked the lease"},
	LeaseExhausted:   {http.StatusGone, "The lease cannot be renewed any more"},
	BodyTooLarge:     {http.StatusRequestEntityTooLarge, "The body is too large"},
	UnsupportedMedia: {http.StatusUnsupportedMediaType, "The body is not JSON"},
	Invalid:          {http.StatusUnprocessableEntity, "The request is not valid"},
	Mismatch:         {http.StatusUnprocessableEntity, "The requestId was used with other parameters"},
	TooManyRequests:  {http.StatusTooManyRequests, "Too many requests"},
	TooManyWaiters:   {http.StatusTooManyRequests, "The principal, or the replica, has too many waiters"},
	TooManyKeys:      {http.StatusTooManyRequests, "The namespace has too many keys"},
	CallerGone:       {499, "The caller has gone"}, // the status that proxies log for this
	Internal:         {http.StatusInternalServerError, "The service failed"},
	NotRecorded:      {http.StatusServiceUnavailable, "The action was not carried out, as it could not be recorded"},
	Unavailable:      {http.StatusServiceUnavailable, "The outcome is unknown"},
}

// Schema lists the codes.
func (Code) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, code := range slices.Sorted(maps.Keys(kinds)) {
		s.Enum = append(s.Enum, string(code))
	}
	s.PrecomputeMessages()
	return s
}

// A Violation is one thing that is wrong with a request.
type Violation struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" doc:"What is wrong: body.ttlMillis, path.key, query.limit"`
}

// A Problem is a refusal, as RFC 9457 defines it. It never quotes a value of the request, nor an address, a path or a
// message of ZooKeeper: the log has them, under the X-Request-Id of the answer.
type Problem struct {
	Type   string      `json:"type" doc:"urn:lockkeeper:problem: and the code"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Code   Code        `json:"code" doc:"Stable: decide by it"`
	Word   Code        `json:"error" doc:"The code; on the routes without a namespace, the one that their contract has for the refusal"`
	Detail string      `json:"detail,omitempty"`
	Errors []Violation `json:"errors,omitempty" doc:"What is wrong with the request"`

	Locked           *bool  `json:"locked,omitempty" doc:"false, with LOCK_NOT_FOUND"`
	CurrentOwner     string `json:"currentOwner,omitempty" doc:"Of the holder, with LOCK_ALREADY_HELD; missing if the first contender still waits"`
	RetryAfterMillis int64  `json:"retryAfterMillis,omitempty" doc:"An estimate, in ms"`
	FencingToken     string `json:"fencingToken,omitempty" doc:"Of the first contender, with HOLDER_CHANGED"`
	RevokedBy        string `json:"revokedBy,omitempty" doc:"With LOCK_REVOKED"`
	Reason           string `json:"reason,omitempty" doc:"With LOCK_REVOKED"`

	allow string // methods, with METHOD_NOT_ALLOWED
	cause error  // for the log only
}

// longestRetry is the longest Retry-After of a lock that is held, in seconds.
const longestRetry = 10

func problem(code Code, detail string) *Problem {
	k := kinds[code]
	return &Problem{Type: "urn:lockkeeper:problem:" + string(code), Title: k.title, Status: k.status, Code: code, Word: code, Detail: detail}
}

func invalid(location, message string) *Problem {
	p := problem(Invalid, "")
	p.Errors = []Violation{{Message: message, Location: location}}
	return p
}

// contract changes the problem of an action to what the contracts of others have for it: a lease that has ended is a
// conflict, and a renewal knows one reason for it.
func (p *Problem) contract(action string) {
	if p.Status != http.StatusGone {
		return
	}
	p.Status = http.StatusConflict
	if action == "renew" {
		p.Word = LockExpired
	}
}

func (p *Problem) because(cause error) *Problem {
	p.cause = cause
	return p
}

func (p *Problem) retryAfter(d time.Duration) *Problem {
	p.RetryAfterMillis = max(1, d.Milliseconds())
	return p
}

// Error returns the code and the detail.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code)
	}
	return string(p.Code) + ": " + p.Detail
}

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problem documents.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// GetHeaders returns the headers that belong to the problem.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.RetryAfterMillis > 0 {
		after := (p.RetryAfterMillis + 999) / 1000
		if p.Status == http.StatusConflict {
			after = min(after, longestRetry) // the holder may release the lock long before its lease ends
		}
		h.Set("Retry-After", strconv.FormatInt(after, 10))
	}
	if p.Code == Unauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	return h
}

// write answers a request that did not reach a handler with the problem.
func (p *Problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	// The caller has gone if this fails, and the log has the problem.
	_ = json.NewEncoder(w).Encode(p)
}
