// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package filefence

import (
	"context"
	"errors"
	"os"
)

const supported = false

func (r record) lock(context.Context, creation) (*os.File, error) { return nil, errors.ErrUnsupported }
