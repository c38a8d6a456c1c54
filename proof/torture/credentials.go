// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// bearer is the token of all callers of the lock service. It identifies them, and is no secret.
const bearer = "torture"

// credentials are the files that the replicas of the lock service share.
type credentials struct{ dir, principals, keys string }

func newCredentials() (_ *credentials, err error) {
	dir, err := os.MkdirTemp("", "torture-service-")
	if err != nil {
		return nil, err
	}
	c := &credentials{dir: dir, principals: filepath.Join(dir, "principals.json"), keys: filepath.Join(dir, "keys")}
	principals, err := json.Marshal(map[string]any{"principals": []any{map[string]any{
		"name": "torture", "tokens": []string{fmt.Sprintf("%x", sha256.Sum256([]byte(bearer)))},
		"namespaces": []string{"*"}, "roles": []string{"client", "admin"},
	}}})
	err = errors.Join(err, os.WriteFile(c.principals, principals, 0o600), os.WriteFile(c.keys, []byte(strings.Repeat("c0", 32)), 0o600))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("credentials of the lock service: %w", err), c.remove())
	}
	return c, nil
}

func (c *credentials) remove() error { return os.RemoveAll(c.dir) }
