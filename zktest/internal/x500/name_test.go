// SPDX-License-Identifier: Apache-2.0

package x500

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"testing"

	"github.com/stretchr/testify/require"
)

func value(text any, of ...int) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier(of), Value: text}
}

// The conformance suite compares more subjects with a real server.
func TestNamesArePrintedAsJavaPrintsThem(t *testing.T) {
	for want, subject := range map[string]pkix.RDNSequence{
		"":                                {},
		"CN=ann":                          {{value("ann", 2, 5, 4, 3)}},
		"CN=":                             {{value("", 2, 5, 4, 3)}},
		`CN=\ \ `:                         {{value("  ", 2, 5, 4, 3)}},
		`CN=\00`:                          {{value("\x00", 2, 5, 4, 3)}},
		`CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j`: {{value(`a,b+c"d\e<f>g;h=i#j`, 2, 5, 4, 3)}},
		"CN=grün 漢,OU=Unit,C=DE":          {{value("DE", 2, 5, 4, 6)}, {value("Unit", 2, 5, 4, 11)}, {value("grün 漢", 2, 5, 4, 3)}},
		"CN=b,O=o,CN=a":                   {{value("a", 2, 5, 4, 3)}, {value("o", 2, 5, 4, 10)}, {value("b", 2, 5, 4, 3)}},
		"CN=n+O=o":                        {{value("o", 2, 5, 4, 10), value("n", 2, 5, 4, 3)}},
		"UID=u,DC=example":                {{value("example", 0, 9, 2342, 19200300, 100, 1, 25)}, {value("u", 0, 9, 2342, 19200300, 100, 1, 1)}},
		"2.5.4.5=#130137":                 {{value("7", 2, 5, 4, 5)}},
		"CN=#020101":                      {{value(1, 2, 5, 4, 3)}},
	} {
		encoded, err := asn1.Marshal(subject)
		require.NoError(t, err)
		got, err := Name(encoded)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.True(t, Valid(got), got)
	}
	_, err := Name([]byte("not a subject"))
	require.ErrorContains(t, err, "parse subject: ")
}

func TestOnlyNamesThatJavaReadsAreValid(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "CN=x": true, " cn = x ": true, "CN=x, O=y;OU=z+L=l": true, "CN=": true, "CN=#0402": true, `CN="x,y" `: true,
		`CN=x\,y\41\ `: true, "CN=x=y#z": true, "OID.1.2.3=x": true, "2.999=x": true, "emailAddress=a@b": true,
		"x": false, "=x": false, ",CN=x": false, "CN=x,": false, "FOO=x": false, "CN=#": false, "CN=#0": false, "CN=#zz": false, `CN="x`: false,
		`CN="x"y`: false, `CN=x"y`: false, `CN=x\`: false, `CN=x\y`: false, "CN=x<y": false, "3.1=x": false, "1.40=x": false, "1..2=x": false,
	} {
		require.Equal(t, want, Valid(name), name)
	}
}
