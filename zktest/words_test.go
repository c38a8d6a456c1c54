// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
)

// word sends a four-letter word to the server at an address, and returns the answer.
func word(t *testing.T, e *zktest.Ensemble, addr, word string) string {
	t.Helper()
	conn, err := e.Dial(t.Context(), "tcp", addr)
	require.NoError(t, err)
	c := rawclient.New(conn)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.Send([]byte(word)))
	text, err := c.Text(maxWait)
	require.NoError(t, err)
	return text
}

// The expected texts come from three real servers, except for addresses and folders.
func TestFourLetterWordsOfEnsembleMatchZooKeepers(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true, Servers: 3, Tick: 200 * time.Millisecond})
	at := e.Server(2).Addr()
	require.Equal(t, strings.Join([]string{
		"clientPort=2181", "secureClientPort=-1", "dataDir=/memory/version-2", "dataDirSize=0", "dataLogDir=/memory/version-2",
		"dataLogSize=0", "tickTime=200", "maxClientCnxns=0", "minSessionTimeout=400", "maxSessionTimeout=4000",
		"clientPortListenBacklog=-1", "serverId=2", "initLimit=5", "syncLimit=5", "electionAlg=3", "electionPort=0",
		"quorumPort=0", "peerType=0", "membership: ", "server.1=zktest-1:0:0:participant", "server.2=zktest-2:0:0:participant",
		"server.3=zktest-3:0:0:participant", "version=0",
	}, "\n"), word(t, e, at, "conf"))
	require.Equal(t, "rw", word(t, e, at, "isro"))

	require.NoError(t, e.Server(1).Kill(t.Context()))
	require.NoError(t, e.Server(3).Kill(t.Context()))
	waitFor(t, "no server leads", func() bool { _, err := e.Server(2).Mode(t.Context()); return err != nil })
	require.Equal(t, "null", word(t, e, at, "isro"))
	for _, name := range []string{"conf", "srvr", "wchs", "wchc", "wchp"} {
		require.Equal(t, "This ZooKeeper instance is not currently serving requests\n", word(t, e, at, name))
	}
}

func TestConnectionWithoutHandshakeIsClosedAfterOneSilentInterval(t *testing.T) {
	const interval = 10 * time.Second
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		began := time.Now()
		for _, silence := range []struct {
			after time.Duration // when it connects
			sent  []byte
			ends  time.Duration
		}{
			{0, nil, 2 * interval},
			{3 * time.Second, nil, 2 * interval},
			{9 * time.Second, []byte{0, 0, 0, 45, 0}, 2 * interval},
			{10 * time.Second, []byte{0}, 3 * interval},
		} {
			time.Sleep(silence.after) // in fake time
			begins := time.Since(began) - silence.after
			c := dialRaw(t, e)
			require.NoError(t, c.Send(silence.sent))
			_, err := c.Frame(time.Hour)
			require.ErrorIs(t, err, rawclient.ErrEnded)
			require.Equal(t, begins+silence.ends, time.Since(began))
			time.Sleep(interval - time.Since(began)%interval) // to the ensemble's next interval
		}
	})
}

func TestSingleBytesKeepConnectionWithoutHandshake(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := dialRaw(t, e)
		handshake := handshake.Frame()
		for _, b := range handshake {
			require.NoError(t, c.Send([]byte{b}))
			time.Sleep(9 * time.Second)
		}
		_, err := c.Frame(time.Hour)
		require.NoError(t, err, "the handshake is answered")
	})
}

func TestMuteServerKeepsConnectionWithoutHandshake(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		e.Server(1).Hang(true)
		c := dialRaw(t, e)
		_, err := c.Frame(time.Hour)
		require.ErrorIs(t, err, rawclient.ErrSilent)
	})
}
