// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filefence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/filefence"
)

// A paused holder resumes and writes its report after the next holder has written one.
func ExampleGuard_Do() {
	dir, err := os.MkdirTemp("", "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	report := filepath.Join(dir, "report")
	if err := os.Mkdir(filepath.Join(dir, "fence"), 0o700); err != nil {
		fmt.Println(err)
		return
	}

	guard, err := filefence.New(filepath.Join(dir, "fence"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	publish := func(token fencing.Token, text string) error {
		return guard.Do(context.Background(), "report", token, func(*os.File) error {
			return os.WriteFile(report, []byte(text), 0o600)
		})
	}
	first, second := fencing.Token(4294967311), fencing.Token(4294967330)
	fmt.Println(publish(first, "by the first"))
	fmt.Println(publish(second, "by the second"))
	err = publish(first, "by the first, stale")
	fmt.Println(err)
	fmt.Println(errors.Is(err, fencing.ErrStale))
	text, err := os.ReadFile(report)
	fmt.Println(string(text), err)
	// Output:
	// <nil>
	// <nil>
	// filefence: do "report": fencing: token 4294967311 is stale: 4294967330 has been admitted
	// true
	// by the second <nil>
}
