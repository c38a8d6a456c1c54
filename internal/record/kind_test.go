// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/record"
)

type counter struct {
	Count int    `json:"count"`
	Owner string `json:"owner,omitempty"`
}

var counters = record.Kind[counter]{Name: "a counter", Check: func(c counter) error {
	if c.Count < 0 {
		return fmt.Errorf("count %d is negative", c.Count)
	}
	return nil
}}

func TestRecordIsDecodedAsItWasEncoded(t *testing.T) {
	for _, c := range []struct {
		counter counter
		data    string
	}{
		{counter{}, `{"format":1,"count":0}`},
		{counter{7, "a"}, `{"format":1,"count":7,"owner":"a"}`},
	} {
		data, err := counters.Encode(c.counter)
		require.NoError(t, err)
		require.Equal(t, c.data, string(data))
		decoded, err := counters.Decode(data)
		require.NoError(t, err)
		require.Equal(t, c.counter, decoded)
	}
}

func TestOtherDataIsForeign(t *testing.T) {
	for data, why := range map[string]string{
		"":                          `the node's data is not a counter: ""`,
		"words":                     `the node's data is not a counter: "words"`,
		"{}":                        `the node's data is not a counter: "{}"`,
		"[1]":                       `the node's data is not a counter: "[1]"`,
		`{"count":1}`:               `the node's data is not a counter: `,
		`{"format":1,"count":"x"}`:  `the node's data is not a counter: `,
		`{"format":1,"count":-1}`:   `the node's data is not a counter: count -1 is negative`,
		`{"format":2,"count":"VI"}`: `the node holds a counter in format 2: this version supports format 1`,
	} {
		decoded, err := counters.Decode([]byte(data))
		require.ErrorContains(t, err, why)
		require.True(t, record.IsForeign(fmt.Errorf("read: %w", err)))
		require.Zero(t, decoded)
	}
	require.False(t, record.IsForeign(errors.New("connection lost")))
	require.False(t, record.IsForeign(nil))
}
