// SPDX-License-Identifier: Apache-2.0

// Package ownerlabel has the labels by which people recognise a contender.
package ownerlabel

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
)

// Host returns the host's name for display.
func Host() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return strings.ToValidUTF8(host, "?")
}

// Default returns the owner label if the caller gives none: host and process id.
func Default() string { return fmt.Sprintf("%s/%d", Host(), os.Getpid()) }

// Check returns what is wrong with an owner label, nil if nothing is.
func Check(owner string) error {
	if len(owner) > protocol.MaxOwner {
		return fmt.Errorf("owner label of %d bytes is over the limit of %d", len(owner), protocol.MaxOwner)
	}
	if !utf8.ValidString(owner) {
		return fmt.Errorf("owner label %q is not valid UTF-8: other clients could not read it", owner)
	}
	return nil
}
