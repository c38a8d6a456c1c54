// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// format is the one media type of requests and answers.
var format = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshal}

// unmarshal decodes a body. Huma calls it twice: into a map, which it validates, and into the struct that the handler
// gets. encoding/json ignores the case of field names, so that {"ownerId": …, "OWNERID": …} would be validated as one
// value and used as the other. Such a body is refused.
func unmarshal(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return errors.New("the body is not valid JSON, or a field has a value of another type")
	}
	target, ok := v.(*any)
	if !ok {
		return nil
	}
	fields, ok := (*target).(map[string]any)
	if !ok {
		return nil
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		if slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(name, other) }) {
			return errors.New("a field appears twice")
		}
		if names = append(names, name); len(names) > maxFields {
			return errors.New("the body has too many fields")
		}
	}
	return nil
}

// maxFields bounds the comparison of names. No request has so many fields.
const maxFields = 64

// asProblem replaces the errors that Huma itself returns, for a body that does not fit its schema for instance.
func asProblem(ctx huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := problem(codeOf(e.Status), "")
	p.Status = e.Status
	for _, detail := range e.Errors {
		// The detail also has the value, which can be a secret, or long.
		p.Errors = append(p.Errors, Violation{Message: detail.Message, Location: detail.Location})
	}
	callOf(ctx.Context()).problem = p // for the log
	return p, nil
}

func codeOf(status int) Code {
	switch status {
	case 400:
		return Malformed
	case 415:
		return UnsupportedMedia
	case 422:
		return Invalid
	default:
		return Internal
	}
}
