// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// callFields contains the fields of a Call that plans state, with their names in the text form, which do not change.
var callFields = []struct {
	name string
	of   func(c *Call) any
}{
	{"to", func(c *Call) any { return &c.Replicas }},
	{"ttl", func(c *Call) any { return &c.TTL }},
	{"wait", func(c *Call) any { return &c.Wait }},
	{"reentrant", func(c *Call) any { return &c.Reentrant }},
	{"patience", func(c *Call) any { return &c.Patience }},
	{"hang-up", func(c *Call) any { return &c.HangUp }},
	{"silent", func(c *Call) any { return &c.Silent }},
	{"give-up", func(c *Call) any { return &c.GiveUp }},
	{"duplicate", func(c *Call) any { return &c.Duplicate }},
	{"flight", func(c *Call) any { return &c.Flight }},
	{"hold", func(c *Call) any { return &c.Hold }},
	{"again", func(c *Call) any { return &c.Again }},
	{"renew", func(c *Call) any { return &c.Renew }},
	{"every", func(c *Call) any { return &c.Every }},
	{"lost", func(c *Call) any { return &c.Lost }},
	{"forget", func(c *Call) any { return &c.Forget }},
}

// String returns the call in the text form of a plan's step: "lease", the path, and each field that is not zero, as in
// "lease /a to=r0,r1 ttl=2s hold=1s". Lists are separated by commas.
func (c Call) String() string {
	var b strings.Builder
	b.WriteString("lease " + c.Path)
	for _, f := range callFields {
		field := reflect.ValueOf(f.of(&c)).Elem()
		switch v := field.Interface().(type) {
		case []string:
			fmt.Fprintf(&b, " %s=%s", f.name, strings.Join(v, ","))
		case []time.Duration:
			if len(v) > 0 {
				fmt.Fprintf(&b, " %s=%s", f.name, strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ","))
			}
		default:
			if !field.IsZero() {
				fmt.Fprintf(&b, " %s=%v", f.name, v)
			}
		}
	}
	return b.String()
}

// parseCall parses the text form of a call.
func parseCall(text string) (Call, error) {
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != "lease" {
		return Call{}, errors.New(`want "lease", a path and fields`)
	}
	c := Call{Path: words[1]}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		if err := c.set(name, value); err != nil {
			return Call{}, fmt.Errorf("%q: %w", word, err)
		}
	}
	if len(c.Replicas) == 0 {
		return Call{}, errors.New("the call names no replica")
	}
	return c, nil
}

// set sets a field from its text form.
func (c *Call) set(name, value string) (err error) {
	for _, f := range callFields {
		if f.name != name {
			continue
		}
		switch field := f.of(c).(type) {
		case *time.Duration:
			*field, err = time.ParseDuration(value)
		case *[]time.Duration:
			for text := range strings.SplitSeq(value, ",") {
				d, e := time.ParseDuration(text)
				*field, err = append(*field, d), errors.Join(err, e)
			}
		case *[]string:
			*field = strings.Split(value, ",")
		case *int:
			*field, err = strconv.Atoi(value)
		case *bool:
			*field, err = strconv.ParseBool(value)
		}
		return err
	}
	return errors.New("unknown field of a call")
}
