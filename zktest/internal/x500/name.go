// SPDX-License-Identifier: Apache-2.0

// Package x500 prints the subjects of certificates, and checks names in ACLs, as ZooKeeper's scheme x509 does: with Java's
// X500Principal.
package x500

import (
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// keywords are the types of attributes that RFC 2253 names. Java prints all others as numbers.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O", "2.5.4.11": "OU",
	"0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}

// textTags are the kinds of strings that Java prints as text.
var textTags = []int{asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagT61String, asn1.TagIA5String, asn1.TagGeneralString, asn1.TagBMPString}

type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// The name of the type tells package asn1 that it is a set.
type attributeSET []attribute

// Name prints a subject from its encoding (RawSubject of an x509.Certificate), the last part first: "CN=worker,O=Example".
// The standard library's own form has a fixed order of parts and names for more types.
func Name(subject []byte) (string, error) {
	var parts []attributeSET
	if _, err := asn1.Unmarshal(subject, &parts); err != nil {
		return "", fmt.Errorf("parse subject: %w", err)
	}
	slices.Reverse(parts)
	texts := make([]string, 0, len(parts))
	for _, part := range parts {
		values := make([]string, 0, len(part))
		for _, a := range part {
			values = append(values, a.String())
		}
		texts = append(texts, strings.Join(values, "+"))
	}
	return strings.Join(texts, ","), nil
}

func (a attribute) String() string {
	keyword, known := keywords[a.Type.String()]
	if !known || a.Value.Class != asn1.ClassUniversal || !slices.Contains(textTags, a.Value.Tag) {
		if !known {
			keyword = a.Type.String()
		}
		return keyword + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	text := string(a.Value.Bytes)
	inner := len(text) - len(strings.TrimLeft(text, blanks))
	outer := max(inner, len(strings.TrimRight(text, blanks)))
	var b strings.Builder
	b.WriteString(keyword + "=")
	for i := range len(text) {
		switch c := text[i]; {
		case c == 0:
			b.WriteString(`\00`)
		case i < inner || i >= outer || strings.IndexByte(`,=+<>#;"\`, c) >= 0:
			b.WriteString(`\` + string(rune(c)))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// blanks are escaped at the beginning and at the end of a value.
const blanks = " \r"
