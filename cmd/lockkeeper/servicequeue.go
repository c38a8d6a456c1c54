// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/service/client"
)

// refusal returns an error of the service with its exit status.
func refusal(err error) error {
	if errors.Is(err, client.ErrUnavailable) {
		return &statusError{statusUnavailable, err}
	}
	return err
}

// rowOf returns what a service knows of a lock of a namespace.
func rowOf(namespace string, s *client.Status) listRow {
	return listRow{namespace + "/" + s.Key, holderOf(s), s.Waiters}
}

// holderOf returns the holder of a status, nil if there is none.
func holderOf(s *client.Status) *contender {
	if !s.Locked {
		return nil
	}
	kinds := map[string]string{"session": "lockkeeper", "foreign": "unknown"}
	kind, found := kinds[s.Kind]
	if !found {
		kind = s.Kind
	}
	holder := &contender{Owner: s.Owner, Token: s.Token, Kind: kind}
	if s.Expires != 0 {
		expires := time.UnixMilli(s.Expires)
		holder.Expires = &expires
	}
	if s.Revoked {
		holder.Revoked = &revocation{}
	}
	return holder
}

// ls lists the locks of a service. args has the namespace, with the beginning of a key or without.
func (s *serviceAccess) ls(cmd *cobra.Command, conn *connection, args []string, asJSON bool) error {
	if len(args) == 0 {
		return usageErrorf("the namespace is missing, as --url needs")
	}
	locks, err := s.connect("", conn)
	if err != nil {
		return err
	}
	ctx, cancel := conn.bound(cmd.Context())
	defer cancel()
	namespace, prefix, _ := strings.Cut(args[0], "/")
	rows := []listRow{}
	for status, err := range locks.List(ctx, namespace, prefix) {
		if err != nil {
			return refusal(err)
		}
		rows = append(rows, rowOf(namespace, status))
	}
	return printRows(cmd.OutOrStdout(), rows, asJSON)
}

// show prints a lock of a service.
func (s *serviceAccess) show(cmd *cobra.Command, conn *connection, name string, asJSON bool) error {
	locks, err := s.connect("", conn)
	if err != nil {
		return err
	}
	ctx, cancel := conn.bound(cmd.Context())
	defer cancel()
	namespace, key, _ := strings.Cut(name, "/")
	status, err := locks.Status(ctx, namespace, key)
	if err != nil {
		return refusal(err)
	}
	row := rowOf(namespace, status)
	if asJSON {
		return printJSON(cmd.OutOrStdout(), row)
	}
	if row.Holder == nil && row.Waiters > 0 { // the first contender still waits: its caller may have died
		return printText(cmd, fmt.Sprintf("%s is held by no client; waiters: %d\n", printablePath(row.Path), row.Waiters))
	}
	if row.Holder == nil {
		return printText(cmd, printablePath(row.Path)+" is free\n")
	}
	position := "holder"
	if row.Holder.Revoked != nil {
		position = "revoked"
	}
	return printTable(cmd.OutOrStdout(), [][]string{
		{"", "OWNER", "TOKEN", "KIND", "EXPIRES", "WAITERS"},
		{position, row.Holder.owner(), row.Holder.Token.String(), row.Holder.Kind, clock(row.Holder.Expires), fmt.Sprint(row.Waiters)},
	})
}

// watch reports the holder of a lock of a service, until ctx is done.
func (s *serviceAccess) watch(ctx context.Context, conn *connection, w *watch, stderr io.Writer) error {
	locks, err := s.connect("", conn)
	if err != nil {
		return err
	}
	defer remind(ctx, "watch", locks.Ready, stderr)()
	namespace, key, _ := strings.Cut(w.path, "/")
	for status, err := range locks.Observe(ctx, namespace, key) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return refusal(err)
		}
		if err := w.is(holderOf(status)); err != nil {
			return err
		}
	}
	return nil
}

// release takes a lock of a service from its holder.
func (s *serviceAccess) release(cmd *cobra.Command, args *releaseArguments, name string) error {
	locks, err := s.connect("", &args.connection)
	if err != nil {
		return err
	}
	ctx, cancel := args.connection.bound(cmd.Context())
	defer cancel()
	namespace, key, _ := strings.Cut(name, "/")
	err = locks.ForceRelease(ctx, namespace, key, client.Force{Token: args.parsed, Reason: args.reason, Now: args.mode == modeNow})
	if err != nil {
		return refusal(err)
	}
	outcome := "revoked"
	if args.mode == modeNow {
		outcome = "released"
		logError(cmd.ErrOrStderr(), stillWorking)
	}
	return printText(cmd, fmt.Sprintf("%s %s: token %v, reason %q\n", outcome, printablePath(name), args.parsed, args.reason))
}
