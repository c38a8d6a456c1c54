// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInvalidOptionsAreRejected(t *testing.T) {
	for _, test := range []struct {
		opts Options
		says string
	}{
		{Options{Servers: 2}, "2 servers"},
		{Options{Servers: -1}, "-1 servers"},
		{Options{Tick: -time.Second}, "tick -1s"},
		{Options{Tick: time.Microsecond}, "tick 1µs"},
		{Options{SyncLimit: -1}, "sync limit -1"},
		{Options{Backend: "podman"}, `backend "podman"`},
		{Options{Config: []string{"syncLimit"}}, `config "syncLimit"`},
		{Options{Config: []string{"a=b\nc=d"}}, `config "a=b\nc=d"`},
		{Options{Properties: map[string]string{"a": "b c"}}, `property "a"="b c"`},
		{Options{Counters: map[string]int32{"locks": 1}}, `path "locks"`},
		{Options{Counters: map[string]int32{"/": 1}}, `path "/"`},
		{Options{Counters: map[string]int32{"/a//b": 1}}, `path "/a//b"`},
		{Options{Counters: map[string]int32{"/zookeeper/config": 1}}, `path "/zookeeper/config"`},
	} {
		_, err := Run(t.Context(), &test.opts)
		require.ErrorContains(t, err, test.says)
	}
}

func TestConfigOverridesWhatThePackageSets(t *testing.T) {
	p, err := (&Options{Config: []string{"initLimit = 3"}, Properties: map[string]string{"x.y": "z"}}).plan()
	require.NoError(t, err)
	cfg := p.zooCfg("/data", "2181", "/conf", []place{{}})
	require.Contains(t, cfg, "initLimit = 3\n")
	require.NotContains(t, cfg, "initLimit=20")
	require.NotContains(t, cfg, "server.1", "alone, a server needs no list of peers")
	require.Equal(t, []string{"-Dx.y=z", "-Dznode.container.checkIntervalMs=1000"}, p.jvm)
}

func TestFilesHaveTheFolderThatTheirServerKnows(t *testing.T) {
	p, err := (&Options{
		Files:      map[string][]byte{"jaas.conf": []byte(`keyTab="{files}/key";`)},
		Properties: map[string]string{"login": "{files}/jaas.conf"},
		Config:     []string{"ssl.keyStore.location={files}/store.pem"},
	}).plan()
	require.NoError(t, err)
	require.Contains(t, p.jvmIn("/conf"), "-Dlogin=/conf/jaas.conf")
	require.Contains(t, p.zooCfg("/data", "2181", "/conf", []place{{}}), "ssl.keyStore.location=/conf/store.pem\n")
	require.Equal(t, map[string][]byte{"jaas.conf": []byte(`keyTab="/tmp/1/key";`)}, p.filesIn("/tmp/1"))
	for _, name := range []string{"", "a/b", "a b", "zoo.cfg", ".."} {
		_, err := (&Options{Files: map[string][]byte{name: nil}}).plan()
		require.ErrorContains(t, err, "file ")
	}
}
