// SPDX-License-Identifier: Apache-2.0

// Package rendezvous spreads paths over several ensembles, for programs whose locks and elections are more than one ensemble
// can serve. [Choose] maps each path to one of them, by rendezvous (highest random weight) hashing.
//
// It does not make a path more available. While its ensemble has no quorum, nothing is granted on that path: no other
// ensemble stands in, since it would grant what is still held.
//
// # All clients of a path must agree on the ensembles
//
// Two ensembles are two locks with the same name. If two processes choose with different lists, both can hold one path at the
// same time, each with a token of its own ensemble, and a guard cannot tell which is newer. So all processes need:
//
//   - the same names, each for the same ensemble. A name stands for an ensemble for ever, whatever addresses its servers
//     have; a new name for an old ensemble moves paths. The order of the list has no effect;
//   - the same path in the same namespace. A client of "zk:2181/team" that chooses for /jobs, and one of "zk:2181" that
//     chooses for /team/jobs, choose for two paths.
//
// Locks that one lock.All takes must be on one ensemble: choose once, by a path that they have in common, such as their
// parent. A claim's Commit writes to the ensemble of the claim.
//
// # What moves when the list changes
//
// If an ensemble is removed, its paths move, to all others evenly, and no other path does. If one is added to n, it takes over
// one path of each n+1, from all others evenly, and no path moves between those. Queues, tokens and values of a path do not
// move with it: it begins anew, and its tokens can be lower than before.
//
// So a list is not changed while paths are in use. Stop all programs that use the paths that move, start them with the new
// list, and reset the guards of these paths, which refuse the new ensemble's tokens with fencing.ErrOtherHistory if they are
// given the id of Client.History.
package rendezvous

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// Choose returns the ensemble of a path: of those in ensembles, by name, the one with the greatest weight. T is usually
// *recipes.Client.
//
// The weight is the SHA-256 digest of the name, a NUL and the path, which compares as a big-endian number. No release
// changes that, and programs in other languages can choose alike. Of two equal digests, of which
// no example is known, that of the lesser name wins.
//
// Choose sends no request, and does not modify ensembles. It returns an error for a path that package lock refuses, for no
// ensembles, and for a name that is empty or contains a NUL.
func Choose[T any](path string, ensembles map[string]T) (chosen T, err error) {
	if err := zkpath.CheckRecipe(path); err != nil {
		return chosen, fmt.Errorf("rendezvous: choose: %w", err)
	}
	if len(ensembles) == 0 {
		return chosen, fmt.Errorf("rendezvous: choose %s: no ensembles", path)
	}
	var best []byte
	var of string
	for name := range ensembles {
		if err := check(name); err != nil {
			return chosen, fmt.Errorf("rendezvous: choose %s: ensemble %q: %w", path, name, err)
		}
		weight := sha256.Sum256([]byte(name + "\x00" + path))
		if order := bytes.Compare(weight[:], best); order > 0 || order == 0 && name < of {
			best, of = weight[:], name
		}
	}
	return ensembles[of], nil
}

// check returns what is wrong with the name of an ensemble. With a NUL in it, two pairs of name and path could have one digest.
func check(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case strings.ContainsRune(name, 0):
		return errors.New("the name contains a NUL")
	}
	return nil
}
