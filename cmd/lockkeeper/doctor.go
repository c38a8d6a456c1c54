// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newDoctor() *cobra.Command {
	conn := &connection{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor [PREFIX]",
		Short: "Check the servers, and the locks and elections below a path",
		Long: `Check the servers and all nodes at or below a path, "/" by default, and print what is wrong,
each problem with its remedy:

  - servers that do not answer or do not serve, and their modes;
  - session timeouts: the one that is granted for --session-timeout must be at least four
    ticks, and the same on all servers;
  - the zxid and the sequence counters of nodes, if they are near their ends;
  - contenders that block a queue for ever: nodes without a session, or of a session that
    does not exist, or that this client may not read, and leases of the lock service that
    ended long ago;
  - children of queues that belong to no known library.

It opens and closes two sessions on each server, and changes nothing else. Some checks need
four-letter words, which servers answer only if 4lw.commands.whitelist has them: srvr for
the mode, conf for the tick, dump for the sessions. Notes in the output name checks that
were not possible.`,
		Example: "  lockkeeper doctor --session-timeout 10s",
		Args:    atMostOneArgument("PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := "/"
			if len(args) > 0 {
				prefix = args[0]
			}
			if err := absolute(prefix); err != nil {
				return err
			}
			if err := conn.check(); err != nil {
				return err
			}
			d := &diagnosis{Findings: []finding{}, Notes: []string{}}
			err := d.examine(cmd.Context(), conn, prefix, cmd.ErrOrStderr())
			if asJSON {
				err = errors.Join(err, printJSON(cmd.OutOrStdout(), d))
			} else {
				err = errors.Join(err, d.print(cmd.OutOrStdout()))
			}
			if err == nil && len(d.Findings) > 0 {
				err = &statusError{status: statusFailed} // the output states the problems
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	conn.addFlags(cmd)
	cmd.ValidArgsFunction = conn.complete(nil)
	return cmd
}

// A finding is one problem, and what to do about it.
type finding struct {
	Operation string `json:"operation"` // the check that failed
	Object    string `json:"object"`    // a server or a path
	Cause     string `json:"cause"`
	Remedy    string `json:"remedy"`
}

// A diagnosis is the result of all checks.
type diagnosis struct {
	Servers  []*serverState `json:"servers"`
	Nodes    int            `json:"nodes"`  // that were listed
	Queues   int            `json:"queues"` // that have contenders
	Findings []finding      `json:"findings"`
	Notes    []string       `json:"notes"` // checks that were not possible
}

// found adds a problem.
func (d *diagnosis) found(operation, object, remedy, format string, args ...any) {
	d.Findings = append(d.Findings, finding{operation, object, fmt.Sprintf(format, args...), remedy})
}

// examine does all checks. It returns an error if they cannot be completed.
func (d *diagnosis) examine(ctx context.Context, conn *connection, prefix string, stderr io.Writer) error {
	encryption, err := conn.certificates.config()
	if err != nil {
		return err
	}
	p := &prober{bound: conn.connectTimeout, encryption: encryption}
	states, err := each(ctx, conn.addresses(), func(address string) *serverState {
		return p.probe(ctx, address, conn.sessionTimeout)
	})
	if err != nil {
		return err
	}
	d.Servers = states
	d.checkServers(conn.sessionTimeout)
	serving := conn.only(d.serving())
	if serving == nil {
		return &statusError{statusUnavailable, errors.New("no server serves")}
	}
	client, err := serving.connect(ctx, "", stderr)
	if err != nil {
		return err
	}
	defer client.Close()
	return d.checkNodes(ctx, client, prefix, func() map[string]bool {
		for _, s := range d.Servers {
			if s.Mode == "leader" || s.Mode == "standalone" { // the others may lag behind
				return sessionsOf(p.word(ctx, s.Address, "dump"))
			}
		}
		return nil
	})
}

// serving returns the addresses of the servers that serve.
func (d *diagnosis) serving() []string {
	var addresses []string
	for _, s := range d.Servers {
		if s.Error == "" {
			addresses = append(addresses, s.Address)
		}
	}
	return addresses
}

func (d *diagnosis) print(out io.Writer) error {
	cells := [][]string{{"SERVER", "MODE", "VERSION", "PING", "WRITE", "TICK", "SESSION TIMEOUT", "ZXID"}}
	for _, s := range d.Servers {
		cells = append(cells, s.cells())
	}
	if err := printTable(out, cells); err != nil {
		return err
	}
	text := fmt.Sprintf("\n%d nodes, %d queues with contenders\n", d.Nodes, d.Queues)
	for _, n := range d.Notes {
		text += "note: " + n + "\n"
	}
	for _, f := range d.Findings {
		text += fmt.Sprintf("%s %s: %s: %s\n", f.Operation, printablePath(f.Object), f.Cause, f.Remedy)
	}
	switch len(d.Findings) {
	case 0:
		text += "no problems\n"
	case 1:
		text += "1 problem\n"
	default:
		text += fmt.Sprintf("%d problems\n", len(d.Findings))
	}
	_, err := io.WriteString(out, text)
	return err
}
