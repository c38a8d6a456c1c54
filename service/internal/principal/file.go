// SPDX-License-Identifier: Apache-2.0

package principal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"time"

	"github.com/lockkeeper/lockkeeper/service/internal/key"
	"github.com/lockkeeper/lockkeeper/service/internal/limit"
)

// document is the file of principals.
type document struct {
	Principals []entry `json:"principals"`
}

type entry struct {
	Name       string   `json:"name"`
	Tokens     []string `json:"tokens"`   // SHA-256 of each bearer token, in hexadecimal
	Subjects   []string `json:"subjects"` // of client certificates: the subject, or a URI
	Namespaces []string `json:"namespaces"`
	Roles      []Role   `json:"roles"`
	Limits     bounds   `json:"limits"`
}

// bounds are the limits that differ from the service's; those that are missing do not.
type bounds struct {
	RequestsPerSecond *float64 `json:"requestsPerSecond"`
	Burst             *int     `json:"burst"`
	Waiters           *int     `json:"waiters"`
	KeyBytes          *int     `json:"keyBytes"`
	BodyBytes         *int64   `json:"bodyBytes"`
	MaxTTLMillis      *int64   `json:"maxTtlMillis"`
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// Parse reads a file of principals. A principal has the given limits, except for those that its entry sets. Keys and
// TTLs have the given limits at most.
func Parse(content []byte, limits limit.Limits) (*Directory, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields() // a misspelt limit would not be one
	var doc document
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("decode principals: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode principals: content after the document")
	}
	if len(doc.Principals) == 0 {
		return nil, errors.New("the file has no principals")
	}
	d := &Directory{byToken: make(map[[sha256.Size]byte]*Principal), bySubject: make(map[string]*Principal)}
	names := make(map[string]bool)
	for i, e := range doc.Principals {
		if !validName.MatchString(e.Name) || names[e.Name] {
			return nil, fmt.Errorf("principal %d: its name is not valid, or not its own", i+1)
		}
		names[e.Name] = true
		if err := d.add(e, limits); err != nil {
			return nil, fmt.Errorf("principal %s: %w", e.Name, err)
		}
	}
	return d, nil
}

func (d *Directory) add(e entry, limits limit.Limits) error {
	p := &Principal{Name: e.Name, Namespaces: e.Namespaces, Roles: e.Roles}
	var err error
	if p.Limits, err = e.Limits.over(limits); err != nil {
		return err
	}
	if len(e.Roles) == 0 || len(e.Namespaces) == 0 || len(e.Tokens)+len(e.Subjects) == 0 {
		return errors.New("needs a role, a namespace, and a token or a subject")
	}
	for _, role := range e.Roles {
		if role != Client && role != Admin {
			return fmt.Errorf("unknown role %q", role)
		}
	}
	for _, namespace := range e.Namespaces {
		if namespace == "*" {
			continue
		}
		if err := key.CheckNamespace(namespace); err != nil {
			return fmt.Errorf("%w: %q", err, namespace)
		}
	}
	for i, token := range e.Tokens {
		hash, err := hex.DecodeString(token)
		if err != nil || len(hash) != sha256.Size {
			// The text may be a token itself, put here by mistake: the error does not quote it.
			return fmt.Errorf("token %d is not a SHA-256 hash in hexadecimal", i+1)
		}
		if d.byToken[[sha256.Size]byte(hash)] != nil {
			return fmt.Errorf("token %d is listed twice", i+1)
		}
		d.byToken[[sha256.Size]byte(hash)] = p
	}
	for _, subject := range e.Subjects {
		if subject == "" || d.bySubject[subject] != nil {
			return fmt.Errorf("subject %q is empty or listed twice", subject)
		}
		d.bySubject[subject] = p
	}
	return nil
}

// over returns limits with those replaced that b sets.
func (b bounds) over(limits limit.Limits) (limit.Limits, error) {
	if b.RequestsPerSecond != nil {
		if !(*b.RequestsPerSecond >= 0) || math.IsInf(*b.RequestsPerSecond, 0) {
			return limits, errors.New("limit requestsPerSecond is not a number of 0 and more")
		}
		limits.Rate = *b.RequestsPerSecond
	}
	for _, bound := range []struct {
		name   string
		value  *int
		target *int
	}{{"burst", b.Burst, &limits.Burst}, {"waiters", b.Waiters, &limits.Waiters}} {
		if bound.value == nil {
			continue
		}
		if *bound.value < 0 {
			return limits, fmt.Errorf("limit %s is negative", bound.name)
		}
		*bound.target = *bound.value
	}
	if b.KeyBytes != nil {
		if *b.KeyBytes < 1 || *b.KeyBytes > limits.KeyBytes {
			return limits, fmt.Errorf("limit keyBytes is not between 1 and %d", limits.KeyBytes)
		}
		limits.KeyBytes = *b.KeyBytes
	}
	if b.BodyBytes != nil {
		if *b.BodyBytes < 1 || *b.BodyBytes > limits.BodyBytes {
			return limits, fmt.Errorf("limit bodyBytes is not between 1 and %d", limits.BodyBytes)
		}
		limits.BodyBytes = *b.BodyBytes
	}
	if b.MaxTTLMillis != nil {
		if *b.MaxTTLMillis < 1000 || *b.MaxTTLMillis > limits.MaxTTL.Milliseconds() {
			return limits, fmt.Errorf("limit maxTtlMillis is not between 1000 and %d", limits.MaxTTL.Milliseconds())
		}
		limits.MaxTTL = time.Duration(*b.MaxTTLMillis) * time.Millisecond
	}
	return limits, nil
}
