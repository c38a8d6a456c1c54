// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package zktest

import (
	"errors"
	"os"
)

// Freeze returns [errors.ErrUnsupported].
func Freeze(*os.Process) error { return errors.ErrUnsupported }

// Thaw returns [errors.ErrUnsupported].
func Thaw(*os.Process) error { return errors.ErrUnsupported }
