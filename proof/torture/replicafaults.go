// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
)

// replica returns the replica with a number, as plans write it.
func (r *run) replica(number string) (*replica, error) {
	for _, p := range r.replicas {
		if fmt.Sprint(p.number) == number {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no replica %q", number)
}

// onReplica injects a fault into the process of a replica.
func (r *run) onReplica(number string, f func(*replica) (heal, error)) (heal, error) {
	p, err := r.replica(number)
	if err != nil {
		return nil, err
	}
	return r.reservations.reserved(p.processTarget(), func() (heal, error) {
		select {
		case <-p.current().ended: // unexpectedly, which processEnded reports
			return func(context.Context) error { return p.start() }, fmt.Errorf("%s has ended unexpectedly", p.processTarget())
		default:
			return f(p)
		}
	})
}

// endReplica returns the injection of a fault that ends a replica by a signal. Another process takes its place.
func endReplica(signal syscall.Signal) func(context.Context, *run, []string, time.Duration) (heal, error) {
	return func(ctx context.Context, r *run, args []string, _ time.Duration) (heal, error) {
		return r.onReplica(args[0], func(p *replica) (heal, error) {
			err := p.end(ctx, signal)
			return func(context.Context) error { return p.start() }, err
		})
	}
}

func pauseReplica(_ context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	return r.onReplica(args[0], func(p *replica) (heal, error) {
		process := p.current().cmd.Process
		return func(context.Context) error { return process.Signal(syscall.SIGCONT) }, process.Signal(syscall.SIGSTOP)
	})
}

// cutReplica partitions a replica from the servers.
func cutReplica(_ context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	p, err := r.replica(args[0])
	if err != nil {
		return nil, err
	}
	return r.onProxies(p.linksTarget(), p.proxies, func(proxy *docker.Proxy) { proxy.Drop(dropped(args[1])) })
}

// cutCallers partitions a replica from its callers.
func cutCallers(_ context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	p, err := r.replica(args[0])
	if err != nil {
		return nil, err
	}
	return r.onProxies(p.callersTarget(), []*docker.Proxy{p.front}, func(proxy *docker.Proxy) { proxy.Drop(dropped(args[1])) })
}

// onProxies injects a fault into links.
func (r *run) onProxies(target string, proxies []*docker.Proxy, spoil func(*docker.Proxy)) (heal, error) {
	return r.reservations.reserved(target, func() (heal, error) {
		for _, p := range proxies {
			spoil(p)
		}
		return func(context.Context) error {
			for _, p := range proxies {
				p.Heal()
			}
			return nil
		}, nil
	})
}

// revoke has an administrator release the lock of a path by force, through the first replica that answers. The holder is
// notified, and keeps its node until it must have stopped.
func revoke(ctx context.Context, r *run, args []string, lasts time.Duration) (heal, error) {
	at := args[0]
	if at == holderTarget {
		_, h, err := r.aim(lasts)
		if err != nil {
			return nil, err
		}
		at = h.Path
	}
	var errs []error
	for _, p := range r.replicas {
		err := p.revoke(ctx, at)
		if err == nil {
			return nothingToHeal, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.processTarget(), err))
	}
	return nil, errors.Join(errs...)
}

// revokeBound bounds each request of an administrator.
const revokeBound = 2 * time.Second

func (p *replica) revoke(ctx context.Context, at string) error {
	place := "http://" + p.address + "/v1/locks/" + path.Base(path.Dir(at)) + "/" + path.Base(at)
	var status struct {
		FencingToken string `json:"fencingToken"`
	}
	if err := request(ctx, http.MethodGet, place, nil, &status); err != nil {
		return err
	}
	return request(ctx, http.MethodPost, place+"/force-release", map[string]any{
		"fencingToken": status.FencingToken, "reason": "torture",
	}, nil)
}

// request sends one request to the lock service, and decodes the answer into out unless that is nil.
func request(ctx context.Context, method, to string, in, out any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, revokeBound)
	defer cancel()
	var body io.Reader
	if in != nil {
		content, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		return err
	}
	req.Close = true
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	switch err := errors.Join(err, res.Body.Close()); {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d: %s", res.StatusCode, answer)
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}
