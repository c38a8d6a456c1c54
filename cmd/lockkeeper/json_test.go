// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

// jsonTypes has the type of each key, in all outputs of all commands.
var jsonTypes = map[string]string{
	"path": "string", "holder": "object", "readers": "array", "waiters": "number", "queue": "array", "limit": "number",

	"owner": "string", "host": "string", "pid": "number", "since": "string", "token": "string", "kind": "string", "node": "string",
	"session": "string", "shared": "boolean", "permits": "number", "ttlSeconds": "number", "expires": "string", "revoked": "object",
	"by": "string", "reason": "string",

	"time": "string",

	"servers": "array", "address": "string", "error": "string", "mode": "string", "version": "string", "zxid": "string",
	"pingSeconds": "number", "writeSeconds": "number", "tickSeconds": "number", "sessionTimeoutSeconds": "number",
	"minSessionTimeoutSeconds": "number", "maxSessionTimeoutSeconds": "number",

	"nodes": "number", "queues": "number", "findings": "array", "operation": "string", "object": "string", "cause": "string",
	"remedy": "string", "notes": "array",
}

// addTypes adds the type of each key in a decoded document to found. A key without a value is null.
func addTypes(t *testing.T, found map[string]string, value any) {
	t.Helper()
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			addTypes(t, found, element)
		}
	case map[string]any:
		for key, content := range value {
			addTypes(t, found, content)
			name := ""
			switch content.(type) {
			case nil:
				continue
			case string:
				name = "string"
			case float64:
				name = "number"
			case bool:
				name = "boolean"
			case []any:
				name = "array"
			case map[string]any:
				name = "object"
			}
			if before, seen := found[key]; seen {
				require.Equal(t, before, name, "the type of %q", key)
			}
			found[key] = name
		}
	}
}

func TestEachKeyOfJSONHasOneTypeInAllOutputs(t *testing.T) {
	ensemble := startServers(t, nil)
	a := clientOf(t, ensemble, "a")
	ledger, err := lock.NewRW(a, "/ledger", nil)
	require.NoError(t, err)
	for range 2 {
		_, err := ledger.RLock(t.Context())
		require.NoError(t, err)
	}
	enqueue(t, clientOf(t, ensemble, "b"), "/ledger")
	requireContenders(t, ensemble, "/ledger", 3)
	uploads, err := lock.NewSemaphore(a, "/uploads", 3, nil)
	require.NoError(t, err)
	_, err = uploads.Acquire(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, ensemble.Create("/leased", nil))
	require.NoError(t, ensemble.Create("/leased/x-lock-0000000000",
		[]byte(`{"format":1,"kind":"lease","ttl":30000,"held":true,"revoked":{"by":"root","reason":"it hangs"}}`)))
	require.NoError(t, ensemble.Create("/ledger/note", nil))
	locks := startService(t)
	lease, err := serviceClient(t, locks).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)

	found, printed := map[string]string{}, map[string]bool{}
	add := func(command, output string) {
		printed[command] = true
		for decoder := json.NewDecoder(strings.NewReader(output)); ; {
			var document any
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				return
			}
			require.NoError(t, err, output)
			addTypes(t, found, document)
		}
	}
	for _, args := range []string{"ls", "show /ledger", "show /uploads", "show /leased", "show /free", "doctor", "doctor --servers 127.0.0.1:1"} {
		command := strings.Fields(args)
		_, stdout, stderr := runInProcess(t, ensemble, append(command, "--json")...) // doctor fails: it has findings
		require.NotEmpty(t, stdout, "%s: %s", args, stderr)
		add(command[0], stdout)
	}
	for _, args := range []string{"ls team", "show team/orders", "show team/free"} {
		status, stdout, stderr := atService(t, locks, append(strings.Fields(args), "--json")...)
		require.Equal(t, statusOK, status, stderr)
		add("ls", stdout)
	}
	for _, p := range []*process{
		startProcess(t, ensemble, "watch", "/ledger", "--json"),
		startProcess(t, ensemble, "watch", "team/orders", "--json", "--url", locks),
	} {
		p.awaitOutput("\n")
		require.NoError(t, p.cmd.Process.Signal(endSignals()[0]))
		require.Equal(t, statusOK, p.status())
		add("watch", p.stdout.String())
	}
	require.NoError(t, lease.Unlock(t.Context()))
	require.Equal(t, jsonTypes, found)
	for _, c := range commands() {
		if c.Flags().Lookup("json") != nil {
			require.True(t, printed[c.Name()], "the test runs %s --json", c.Name())
		}
	}
}
