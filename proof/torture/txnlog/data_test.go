// SPDX-License-Identifier: Apache-2.0

package txnlog_test

import (
	"bytes"
	"encoding/binary"
	"hash/adler32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/txnlog"
)

// logged returns a log file with one transaction on the node /n.
func logged(t *testing.T, kind txnlog.Type, data string, ephemeral bool) []byte {
	t.Helper()
	var body, file bytes.Buffer
	write := func(to *bytes.Buffer, values ...any) {
		for _, v := range values {
			if text, ok := v.(string); ok {
				v = append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
			}
			require.NoError(t, binary.Write(to, binary.BigEndian, v))
		}
	}
	write(&body, int64(7), int32(1), int64(1), int64(0), int32(kind), "/n", data)
	if kind == txnlog.SetData {
		write(&body, int32(1)) // the version
	} else {
		write(&body, int32(0), ephemeral, int32(1)) // ACL, and the version of the parent
	}
	write(&file, []byte("ZKLG"), int32(2), int64(0), uint64(adler32.Checksum(body.Bytes())), int32(body.Len()), body.Bytes(), []byte("B"))
	return file.Bytes()
}

func TestDataIsReadOfWritesAndOfNodesThatOutliveTheirSession(t *testing.T) {
	for _, c := range []struct {
		kind      txnlog.Type
		ephemeral bool
		want      string
	}{{txnlog.Create, false, "data"}, {txnlog.Create2, false, "data"}, {txnlog.SetData, false, "data"}, {txnlog.Create2, true, ""}} {
		txns, err := txnlog.Read(bytes.NewReader(logged(t, c.kind, "data", c.ephemeral)))
		require.NoError(t, err)
		require.Len(t, txns, 1)
		require.Equal(t, []string{"/n"}, txns[0].Paths)
		require.Equal(t, c.want, string(txns[0].Data))
	}
}
