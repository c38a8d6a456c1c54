// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
)

// The names of the registers.
const (
	fenced = "fenced" // checks the token of each write
	bare   = "bare"   // accepts every write
)

// A write is what a holder writes to a register.
type write struct {
	Writer string        `json:"writer"`
	Value  string        `json:"value"`
	Token  fencing.Token `json:"-"` // in the header of the request
}

// A register has one value, which only the holder of the lock should write. Its check of the token and the write are one step.
type register struct {
	name    string
	checks  bool // tokens
	journal *journal

	mu       sync.Mutex    // guards what follows, and makes each write one step. Locked before the journal's
	gate     fencing.Gate  // of a register that checks
	newest   fencing.Token // of the writes that were accepted
	rejected int           // writes
	stale    int           // writes of older holders that were accepted
}

func newRegister(name string, j *journal) *register {
	r := &register{name: name, checks: name == fenced, journal: j}
	j.add(name, kindInfo, "", state{name + ".value": "", name + ".writer": "", name + ".token": "", name + ".away": false, name + ".rejected": 0, name + ".stale": 0})
	return r
}

// write replaces the value. The error of a register that checks tokens is a *fencing.StaleError if a newer one was accepted.
func (r *register) write(w write) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checks {
		if err := r.gate.Admit(w.Token); err != nil {
			r.rejected++
			text := fmt.Sprintf("rejects %q of %s with token %v: %v", w.Value, w.Writer, w.Token, err)
			var stale *fencing.StaleError
			if errors.As(err, &stale) {
				text = fmt.Sprintf("rejects the stale write %q of %s: its token %v is older than %v", w.Value, w.Writer, stale.Token, stale.Newest)
			}
			r.journal.add(r.name, kindRejected, text, state{r.name + ".rejected": r.rejected})
			return err
		}
	}
	kind, text := kindWrite, fmt.Sprintf("accepts %q of %s with token %v", w.Value, w.Writer, w.Token)
	change := state{r.name + ".value": w.Value, r.name + ".writer": w.Writer, r.name + ".token": w.Token.String()}
	if w.Token < r.newest {
		r.stale++
		kind = kindStale
		text = fmt.Sprintf("accepts the stale write %q of %s: it does not check token %v, which is older than %v", w.Value, w.Writer, w.Token, r.newest)
		change[r.name+".stale"] = r.stale
	}
	r.newest = max(r.newest, w.Token)
	r.journal.add(r.name, kind, text, change)
	return nil
}

// maxWrite bounds the body of a write, in bytes.
const maxWrite = 4 << 10

// handler returns the register as a resource that is written by PUT, with the token in a header.
func (r *register) handler() http.Handler {
	return httpfence.RequireToken(http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		w := write{Token: fencing.TokenFromContext(req.Context())}
		if err := json.NewDecoder(http.MaxBytesReader(res, req.Body, maxWrite)).Decode(&w); err != nil || req.Method != http.MethodPut {
			http.Error(res, "PUT a writer and a value in JSON", http.StatusBadRequest)
			return
		}
		if err := r.write(w); err != nil && !httpfence.Refuse(res, err) {
			http.Error(res, err.Error(), http.StatusInternalServerError)
		}
	}))
}

// An endpoint is the address at which a register is served. It can be closed and opened again.
type endpoint struct {
	handler http.Handler
	address string
	server  *http.Server  // nil while it is closed
	served  chan struct{} // closed when server has ended
}

// openEndpoint serves a register on a free port of the loopback interface.
func openEndpoint(ctx context.Context, handler http.Handler) (*endpoint, error) {
	d := &endpoint{handler: handler, address: "127.0.0.1:0"}
	return d, d.open(ctx)
}

// open serves the register, at the same address as before.
func (d *endpoint) open(ctx context.Context) error {
	if d.server != nil {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.address)
	if err != nil {
		return fmt.Errorf("serve a register: %w", err)
	}
	d.address, d.served = listener.Addr().String(), make(chan struct{})
	d.server = &http.Server{Handler: d.handler, ReadHeaderTimeout: 5 * time.Second}
	go func(server *http.Server, served chan<- struct{}) {
		defer close(served)
		_ = server.Serve(listener) // it ends when the endpoint is closed
	}(d.server, d.served)
	return nil
}

// close refuses further connections, and ends those that are open.
func (d *endpoint) close() {
	if d.server == nil {
		return
	}
	_ = d.server.Close() // of the listener: nothing depends on it
	<-d.served
	d.server = nil
}
