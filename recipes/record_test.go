// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestRecordComesBackAsItWasWritten(t *testing.T) {
	for _, owner := range []string{"pod-7", "", `quoted "label" \ and <html>`, `,"nonce":"x","time":"`, "größe 鎖 🔒", "line\nbreak", strings.Repeat("o", maxOwner)} {
		encoder, err := newRecordEncoder(owner, "host.example")
		require.NoError(t, err)
		back := decodeRecord(encoder.encode("N0NCE", 10*time.Second))
		require.WithinDuration(t, time.Now(), back.Time, time.Minute)
		back.Time = time.Time{}
		require.Equal(t, record{Format: 1, Owner: owner, Host: "host.example", PID: os.Getpid(), Nonce: "N0NCE", Timeout: 10_000}, back)
	}
}

func TestEachAttemptHasANonceOfItsOwn(t *testing.T) {
	one, other := newNonces(), newNonces()
	require.NotEqual(t, one.next(), one.next())
	require.NotEqual(t, one.next(), other.next())
	require.NotContains(t, one.next(), "/", "it can stand in a name")
}

func TestDataOfOtherLibrariesIsTheirOwnerLabel(t *testing.T) {
	for _, data := range []string{
		"", "10.0.0.7", "host-a", "{", "null", "[1,2]", "42", `"text"`, `{"format":2,"owner":"of the future"}`, `{"owner":"no format"}`,
		`{"format":"1"}`, "\x00\xff\xfe",
	} {
		require.Equal(t, record{Owner: data}, decodeRecord([]byte(data)), "%q", data)
	}
	require.Equal(t, record{}, decodeRecord(nil))
}

func TestOwnerLabelOverTheLimitIsRefusedWithTheLimit(t *testing.T) {
	require.NoError(t, CheckOwner(""))
	require.NoError(t, CheckOwner(strings.Repeat("o", 4096)))
	require.EqualError(t, CheckOwner(strings.Repeat("o", 4097)), "owner label of 4097 bytes is over the limit of 4096")
	require.Error(t, CheckOwner(strings.Repeat("ö", 2049)), "bytes count, not characters")
}

// opsError returns the error of parseOps for the operations.
func opsError(ops []any) error {
	_, err := parseOps("", ops)
	return err
}

func TestTransactionOverTheServersLimitIsRefusedWithTheLimit(t *testing.T) {
	big := make([]byte, maxTransaction)
	acl := zk.WorldACL(zk.PermAll)
	for name, ops := range map[string][]any{
		"create":       {&zk.CreateRequest{Path: "/a", Data: big, Acl: acl}},
		"set":          {&zk.SetDataRequest{Path: "/a", Data: big}},
		"long path":    {&zk.DeleteRequest{Path: "/" + strings.Repeat("x", len(big))}},
		"long check":   {&zk.CheckVersionRequest{Path: "/" + strings.Repeat("x", len(big))}},
		"sum of parts": {&zk.SetDataRequest{Path: "/a", Data: big[:1<<19]}, &zk.SetDataRequest{Path: "/b", Data: big[:1<<19]}},
	} {
		require.ErrorContains(t, opsError(ops), "over the limit of 1048575 for a transaction", name)
	}
	many := make([]any, 1<<15)
	for i := range many {
		many[i] = &zk.DeleteRequest{Path: "/a"}
	}
	require.ErrorContains(t, opsError(many), "over the limit", "what stands around the paths counts as well")
}

func TestTransactionWithinTheLimitPasses(t *testing.T) {
	require.NoError(t, opsError(nil))
	require.NoError(t, opsError([]any{
		&zk.CreateRequest{Path: "/a", Data: make([]byte, 1<<19), Acl: zk.WorldACL(zk.PermAll)},
		&zk.SetDataRequest{Path: "/a", Data: make([]byte, 1<<18)},
		&zk.DeleteRequest{Path: "/a"},
		&zk.CheckVersionRequest{Path: "/a", Version: 3},
	}))
}

// Errors and answers contain the owner.
func TestOwnerOfForeignNodeIsBounded(t *testing.T) {
	require.Len(t, decodeRecord(bytes.Repeat([]byte("x"), 1<<20)).Owner, maxOwner)
	require.Equal(t, "short", decodeRecord([]byte("short")).Owner)
}
