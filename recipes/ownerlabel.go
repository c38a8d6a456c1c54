// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
)

// hostname returns the host's name for display.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return strings.ToValidUTF8(host, "?")
}

// defaultOwner returns the owner label if the caller gives none: host and process id.
func defaultOwner() string { return fmt.Sprintf("%s/%d", hostname(), os.Getpid()) }

// CheckOwner returns what is wrong with an owner label, nil if nothing is.
func CheckOwner(owner string) error {
	if len(owner) > protocol.MaxOwner {
		return fmt.Errorf("owner label of %d bytes is over the limit of %d", len(owner), protocol.MaxOwner)
	}
	if !utf8.ValidString(owner) {
		return fmt.Errorf("owner label %q is not valid UTF-8: other clients could not read it", owner)
	}
	return nil
}
