// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	mobynet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/network"
)

// attachment is a server's address in a network.
type attachment struct {
	network *tc.DockerNetwork
	addr    netip.Addr
}

func (a attachment) settings() *mobynet.EndpointSettings {
	return &mobynet.EndpointSettings{NetworkID: a.network.ID, IPAMConfig: &mobynet.EndpointIPAMConfig{IPv4Address: a.addr}}
}

// member is a server in a container.
type member struct {
	engine         *engine
	id             int
	disks          *disks // nil if the server's data are in its container
	ctr            *tc.DockerContainer
	at             string // host:port for clients
	clients, peers attachment
}

// create creates and starts the container. Both networks, the configuration and the data
// exist before the process starts.
func (m *member) create(ctx context.Context, p *plan, id int, places []place) error {
	files, err := serverFiles(p, id, places)
	if err != nil {
		return err
	}
	bindings, err := m.bind()
	if err != nil {
		return err
	}
	m.ctr, err = tc.Run(ctx, m.engine.image,
		tc.WithLogger(tclog.NewNoopLogger()),
		tc.WithLabels(map[string]string{ownerLabel: self().String()}),
		tc.WithEnv(map[string]string{
			"ZK_SERVER_HEAP": "128",
			"JVMFLAGS":       strings.Join(append([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}, p.jvmIn(configFolder)...), " "),
		}),
		// Without this line every port that the image names is published.
		tc.WithExposedPorts("2181/tcp"),
		tc.WithHostConfigModifier(func(h *container.HostConfig) {
			h.PortBindings = bindings
			// Engines discard old logs. A server prints once when it begins to lead, and readers need that hours later.
			h.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1g"}}
			if m.disks != nil {
				h.Mounts = append(h.Mounts, m.disks.mount(id, serverDisk))
			}
		}),
		network.WithNetwork(nil, m.clients.network),
		tc.WithEndpointSettingsModifier(func(nets map[string]*mobynet.EndpointSettings) {
			nets[m.clients.network.Name] = m.clients.settings()
		}),
		tc.WithAdditionalLifecycleHooks(tc.ContainerLifecycleHooks{PostCreates: []tc.ContainerHook{
			func(ctx context.Context, c tc.Container) error {
				return m.prepare(ctx, c.GetContainerID(), files)
			},
		}}))
	if err != nil {
		return fmt.Errorf("server %d: %w", id, err)
	}
	return nil
}

// bind chooses the server's port on the gateway, if there must be one. The engine's
// own choice would change with every start and every change of networks.
func (m *member) bind() (mobynet.PortMap, error) {
	gateway, err := m.engine.gateway()
	if gateway == "" || err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	m.at = net.JoinHostPort(gateway, strconv.Itoa(port))
	binding := mobynet.PortBinding{HostPort: strconv.Itoa(port)}
	if gateway == "127.0.0.1" { // other machines need not reach it
		binding.HostIP = netip.MustParseAddr(gateway)
	}
	return mobynet.PortMap{mobynet.MustParsePort("2181/tcp"): {binding}}, nil
}

func (m *member) prepare(ctx context.Context, id string, files []byte) error {
	_, err := m.engine.cli.CopyToContainer(ctx, id, client.CopyToContainerOptions{
		DestinationPath: "/", Content: bytes.NewReader(files),
	})
	if err != nil {
		return fmt.Errorf("copy the configuration: %w", err)
	}
	_, err = m.engine.cli.NetworkConnect(ctx, m.peers.network.ID, client.NetworkConnectOptions{
		Container: id, EndpointConfig: m.peers.settings(),
	})
	if err != nil {
		return fmt.Errorf("connect to the peers' network: %w", err)
	}
	return nil
}

// configFolder is the folder of a server's configuration in its container.
const configFolder = "/conf"

// serverFiles returns a tar archive of the files of a new server, owned by user 1000, as which
// both images run it.
func serverFiles(p *plan, id int, places []place) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	put := func(name string, mode int64, content []byte) error {
		h := &tar.Header{Name: name, Mode: mode, Uid: 1000, Gid: 1000, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	err := cmp.Or(
		put(configFolder[1:]+"/zoo.cfg", 0o644, []byte(p.zooCfg("/data", "2181", configFolder, places))),
		put("data/myid", 0o644, []byte(strconv.Itoa(id))),
	)
	for name, content := range p.filesIn(configFolder) {
		err = cmp.Or(err, put(configFolder[1:]+"/"+name, 0o600, content))
	}
	if err == nil && len(p.counters) > 0 {
		err = cmp.Or(
			put("data/version-2/", 0o755, nil),
			put("data/version-2/"+snapshotName, 0o644, snapshot(p.counters)),
		)
	}
	if err = cmp.Or(err, w.Close()); err != nil {
		return nil, fmt.Errorf("archive of server %d's files: %w", id, err)
	}
	return buf.Bytes(), nil
}

// removeMembers removes all containers at the same time: one after the other takes longer
// than starting them.
func removeMembers(ctx context.Context, members []*member) error {
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		if m.ctr != nil {
			wg.Go(func() {
				_, err := m.engine.cli.ContainerRemove(ctx, m.ctr.GetContainerID(),
					client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
				errs[i] = err
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (m *member) addr() string { return m.at }

func (m *member) inspect(ctx context.Context) (*container.InspectResponse, error) {
	r, err := m.engine.cli.ContainerInspect(ctx, m.ctr.GetContainerID(), client.ContainerInspectOptions{})
	return &r.Container, err
}

func (m *member) running(ctx context.Context) error {
	c, err := m.inspect(ctx)
	if err != nil {
		return err
	}
	if !c.State.Running {
		return fmt.Errorf("container %s, exit code %d %s: %w", c.State.Status, c.State.ExitCode, c.State.Error, os.ErrProcessDone)
	}
	return nil
}

func (m *member) kill(ctx context.Context) error {
	_, err := m.engine.cli.ContainerKill(ctx, m.ctr.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
	if errdefs.IsConflict(err) { // not running
		return nil
	}
	if err != nil {
		return err
	}
	// The signal is sent; Start must not find the container still running.
	return poll(ctx, func(ctx context.Context) error {
		c, err := m.inspect(ctx)
		if err != nil {
			return &fatal{err}
		}
		if c.State.Running {
			return errors.New("still running")
		}
		return nil
	})
}

func (m *member) start(ctx context.Context) error {
	_, err := m.engine.cli.ContainerStart(ctx, m.ctr.GetContainerID(), client.ContainerStartOptions{})
	return err
}

// pauseAttempts is how often a container is paused that could not be frozen: on a busy machine, the runtime gives up before all of its
// processes are.
const pauseAttempts = 5

func (m *member) pause(ctx context.Context) (err error) {
	for range pauseAttempts {
		var c *container.InspectResponse
		if c, err = m.inspect(ctx); err != nil || c.State.Paused {
			return err
		}
		if _, err = m.engine.cli.ContainerPause(ctx, c.ID, client.ContainerPauseOptions{}); err == nil {
			return nil
		}
	}
	return err
}

func (m *member) unpause(ctx context.Context) error {
	c, err := m.inspect(ctx)
	if err == nil && c.State.Paused {
		_, err = m.engine.cli.ContainerUnpause(ctx, c.ID, client.ContainerUnpauseOptions{})
	}
	return err
}

func (m *member) partition(ctx context.Context) error {
	return errors.Join(m.detach(ctx, m.clients), m.detach(ctx, m.peers))
}

func (m *member) isolate(ctx context.Context) error { return m.detach(ctx, m.peers) }

func (m *member) heal(ctx context.Context) error {
	c, err := m.inspect(ctx)
	if err != nil {
		return err
	}
	for _, a := range []attachment{m.clients, m.peers} {
		if c.NetworkSettings.Networks[a.network.Name] != nil {
			continue
		}
		// The request repeats the address, because the engine does not remember it.
		_, err := m.engine.cli.NetworkConnect(ctx, a.network.ID, client.NetworkConnectOptions{
			Container: c.ID, EndpointConfig: a.settings(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// detach disconnects the server from a network. That removes its interface, so no packet is
// answered and no connection is closed.
func (m *member) detach(ctx context.Context, a attachment) error {
	c, err := m.inspect(ctx)
	if err == nil && c.NetworkSettings.Networks[a.network.Name] != nil {
		_, err = m.engine.cli.NetworkDisconnect(ctx, a.network.ID, client.NetworkDisconnectOptions{Container: c.ID})
	}
	return err
}

func (m *member) tail(ctx context.Context) string {
	if m.ctr == nil {
		return "(no container)"
	}
	var out bytes.Buffer
	if err := m.output(ctx, &out, "30"); err != nil {
		fmt.Fprintf(&out, "(log: %v)", err)
	}
	return out.String()
}

// output copies the last lines of the server's output, or all.
func (m *member) output(ctx context.Context, to io.Writer, lines string) error {
	r, err := m.engine.cli.ContainerLogs(ctx, m.ctr.GetContainerID(),
		client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: lines})
	if err != nil {
		return err
	}
	_, err = stdcopy.StdCopy(to, to, r)
	return errors.Join(err, r.Close())
}
