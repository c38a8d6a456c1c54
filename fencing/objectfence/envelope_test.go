// SPDX-License-Identifier: Apache-2.0

package objectfence

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvelopeIsReadAsWritten(t *testing.T) {
	for _, e := range []envelope{
		{newest: 1, write: "A", body: []byte{}},
		{newest: math.MaxInt64, write: "A", body: []byte("\n\nbody\n\ntoken 2\n\x00\xff")},
		{newest: 7, write: "A", body: []byte("deleted\n")},
		{newest: 7, write: "A", deleted: true},
		{newest: 0, write: "A", body: []byte("after a reset")},
		{newest: 7, history: "3UHFKW4Q", write: "A", body: []byte("body")},
		{newest: 7, history: "3UHFKW4Q", write: "A", deleted: true},
		{newest: 0, history: "3UHFKW4Q", write: "A", body: []byte{}},
	} {
		again, ok := parse(e.encode())
		require.True(t, ok, "%q", e.encode())
		require.Equal(t, e, again)
	}
	require.Equal(t, "lockkeeper object 1\ntoken 4294967311\nwrite A\n\nbody",
		string(envelope{newest: 4294967311, write: "A", body: []byte("body")}.encode()), "the format that other releases read is unchanged")
	require.Equal(t, "lockkeeper object 1\ntoken 7\nwrite A\ndeleted\n\n",
		string(envelope{newest: 7, write: "A", deleted: true}.encode()))
	require.Equal(t, "lockkeeper object 1\ntoken 7\nhistory H-1\nwrite A\ndeleted\n\n",
		string(envelope{newest: 7, history: "H-1", write: "A", deleted: true}.encode()))
}

func TestOtherContentIsNotParsedAsEnvelope(t *testing.T) {
	whole := string(envelope{newest: 12, write: "A", body: []byte("body")}.encode())
	objects := []string{
		"", "body", "\n\nbody", "{\"token\": 12}\n\n\n\n", whole[1:], "\n" + whole,
		"lockkeeper object 2\ntoken 12\nwrite A\n\nbody",
		"lockkeeper object 1\ntoken 012\nwrite A\n\nbody",
		"lockkeeper object 1\ntoken -1\nwrite A\n\nbody",
		"lockkeeper object 1\ntoken \nwrite A\n\nbody",
		"lockkeeper object 1\ntoken 9223372036854775808\nwrite A\n\nbody",
		"lockkeeper object 1\ntoken 12\nwrite \n\nbody",
		"lockkeeper object 1\nwrite A\ntoken 12\n\nbody",
		"lockkeeper object 1\ntoken 12\n\nbody",
		"lockkeeper object 1\n12\nA\n\nbody",
		"lockkeeper object 1\ntoken 12\nwrite A\nremoved\n\n",
		"lockkeeper object 1\ntoken 12\nwrite A\ndeleted\n\nbody",
		"lockkeeper object 1\ntoken 12\nhistory \nwrite A\n\nbody",
		"lockkeeper object 1\ntoken 12\nhistory a b\nwrite A\n\nbody",
		"lockkeeper object 1\ntoken 12\nhistory H\n\nbody",
		"lockkeeper object 1\ntoken 12\nwrite A\nhistory H\n\nbody",
		"lockkeeper object 1\ntoken 12\nhistory H\nhistory H\nwrite A\n\nbody",
		"lockkeeper object 1\nhistory H\ntoken 12\nwrite A\n\nbody",
		"lockkeeper object 1\r\ntoken 12\r\nwrite A\r\n\r\nbody",
	}
	for n := range len(whole) - len("body") {
		objects = append(objects, whole[:n])
	}
	whole = string(envelope{newest: 12, history: "H-1", write: "A", body: []byte("body")}.encode())
	for n := range len(whole) - len("body") {
		objects = append(objects, whole[:n])
	}
	for _, object := range objects {
		_, ok := parse([]byte(object))
		require.False(t, ok, "%q", object)
	}
}
