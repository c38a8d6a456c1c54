// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecordComesBackAsItWasWritten(t *testing.T) {
	for _, owner := range []string{"pod-7", "", `quoted "label" \ and <html>`, `,"nonce":"x","time":"`, "größe 鎖 🔒", "line\nbreak", strings.Repeat("o", MaxOwner)} {
		encoder, err := NewEncoder(owner, "host.example", 7)
		require.NoError(t, err)
		now := time.Unix(1, 2).UTC()
		back := DecodeRecord(encoder.Encode("N0NCE", 10*time.Second, now))
		require.Equal(t, Record{Format: 1, Owner: owner, Host: "host.example", PID: 7, Nonce: "N0NCE", Time: now, Timeout: 10_000}, back)
	}
}

func TestDataOfOtherLibrariesIsTheirOwnerLabel(t *testing.T) {
	for _, data := range []string{
		"", "10.0.0.7", "host-a", "{", "null", "[1,2]", "42", `"text"`, `{"format":2,"owner":"of the future"}`, `{"owner":"no format"}`,
		`{"format":"1"}`, "\x00\xff\xfe",
	} {
		require.Equal(t, Record{Owner: data}, DecodeRecord([]byte(data)), "%q", data)
	}
	require.Equal(t, Record{}, DecodeRecord(nil))
}

// Errors and answers contain the owner.
func TestOwnerOfForeignNodeIsBounded(t *testing.T) {
	require.Len(t, DecodeRecord(bytes.Repeat([]byte("x"), 1<<20)).Owner, MaxOwner)
	require.Equal(t, "short", DecodeRecord([]byte("short")).Owner)
}
